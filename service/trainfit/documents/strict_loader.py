"""YAML as plain data, without the key given twice that PyYAML lets pass."""

from yaml import MappingNode, SafeLoader
from yaml.constructor import ConstructorError


class StrictLoader(SafeLoader):
    """PyYAML's safe loader; a key that a mapping has twice is an error."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._flattened: set[int] = set()

    def flatten_mapping(self, node: MappingNode) -> None:
        """Check what was written, then put in what `<<` merges, which may be overridden."""
        if id(node) not in self._flattened:
            self._flattened.add(id(node))
            _refuse_twice(node)
        super().flatten_mapping(node)


def _refuse_twice(node: MappingNode) -> None:
    seen: set[object] = set()
    for key, _ in node.value:
        if isinstance(key.value, str):
            if key.value in seen:
                raise ConstructorError(
                    None, None, f"{key.value!r} is given twice in one mapping", key.start_mark
                )
            seen.add(key.value)
