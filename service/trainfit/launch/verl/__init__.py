"""verl: the actor's update of a PPO trainer, from its YAML and Hydra's key=value over it.

What else stands on the card while the actor trains is not read: the rollout engine has to be given
as bytes, and a critic or a reward model beside the actor is unsupported.
"""
