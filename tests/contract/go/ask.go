// Asks a live service through a client generated from openapi.json, and prints every answer as the
// client read it.
// Usage: ask URL JOB.json

package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"trainfit"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// The job of a file, on a card of the catalogue that is named in an object.
func readJob(path string, gpu string) trainfit.Job {
	content, err := os.ReadFile(path)
	check(err)
	var job trainfit.Job
	check(json.Unmarshal(content, &job))
	job.SetGpu(card(gpu))
	return job
}

func card(name string) trainfit.JobGpu {
	object := trainfit.CustomGpu{Name: &name}
	return trainfit.JobGpu{CustomGpu: &object}
}

// A job written with the client's own types.
func smallJob() trainfit.Job {
	model := trainfit.NewModel()
	model.SetHfId("gpt2")
	job := trainfit.NewJob(*model)
	parallelism := trainfit.NewParallelism()
	parallelism.SetNumGpus(8)
	job.SetParallelism(*parallelism)
	training := trainfit.NewTraining()
	training.SetSeqLength(1024)
	job.SetTraining(*training)
	job.SetFramework(trainfit.TransformersAsFramework(trainfit.NewTransformers("transformers")))
	job.SetGpu(card("L40S"))
	return *job
}

func main() {
	url, job := os.Args[1], readJob(os.Args[2], "H100-80GB")
	configuration := trainfit.NewConfiguration()
	configuration.Servers = trainfit.ServerConfigurations{{URL: url}}
	client := trainfit.NewAPIClient(configuration)
	ctx := context.Background()
	estimateOf := func(job trainfit.Job) (*trainfit.EstimateAnswer, error) {
		question := trainfit.JobAsJobOrLaunch(&job)
		answer, _, err := client.EstimatesAPI.Estimate(ctx).JobOrLaunch(question).Execute()
		return answer, err
	}

	estimate, err := estimateOf(job)
	check(err)
	again, err := estimateOf(estimate.Job)
	check(err)
	small, err := estimateOf(smallJob())
	check(err)

	question := trainfit.NewFitCheckQuestion(job.Model, card("H100-80GB"))
	question.Parallelism = job.Parallelism
	question.Training = job.Training
	question.Framework = job.Framework
	fit, _, err := client.DecisionsAPI.FitCheck(ctx).
		FitCheckOrLaunch(trainfit.FitCheckQuestionAsFitCheckOrLaunch(question)).Execute()
	check(err)

	inBrief, _, err := client.EstimatesAPI.Estimate(ctx).Summary(trainfit.SUMMARY_MB).
		JobOrLaunch(trainfit.JobAsJobOrLaunch(&job)).Execute()
	check(err)

	change := trainfit.NewNamedChange("tp 4", []trainfit.Operation{{
		Op: "replace", Path: "/parallelism/tp", Value: 4,
	}})
	comparison := trainfit.NewCompareQuestion()
	comparison.SetJob(job)
	comparison.SetChanges([]trainfit.NamedChange{*change})
	compared, _, err := client.DecisionsAPI.Compare(ctx).CompareQuestion(*comparison).Execute()
	check(err)

	named := trainfit.NewNamedJob("v3")
	named.SetJob(job)
	batch, _, err := client.EstimatesAPI.EstimateBatch(ctx).
		BatchRequest(*trainfit.NewBatchRequest([]trainfit.NamedJob{*named})).Execute()
	check(err)

	about := trainfit.NewLedgerQuestion(job.Model)
	about.Parallelism = job.Parallelism
	about.Training = job.Training
	about.Framework = job.Framework
	ledger, _, err := client.EstimatesAPI.Ledger(ctx).LedgerQuestion(*about).Execute()
	check(err)

	file := trainfit.NewLaunchFile("train.sh", "torchrun --nproc-per-node 8 train.py")
	launch := trainfit.NewLaunch()
	launch.SetFiles([]trainfit.LaunchFile{*file})
	_, _, unread := client.LaunchesAPI.JobFromLaunch(ctx).Launch(*launch).Execute()

	gpus, _, err := client.CataloguesAPI.ListGpus(ctx).Execute()
	check(err)
	models, _, err := client.CataloguesAPI.ListModels(ctx).Execute()
	check(err)

	job.SetGpu(card("H1000"))
	_, refused := estimateOf(job)

	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"estimate": estimate,
		"again":    again.RequestDigest,
		"small":    small,
		"in_brief": inBrief.Summary.Mb,
		"fit":      fit,
		"compared": compared,
		"batch":    batch,
		"ledger":   ledger,
		"gpus":     gpus,
		"models":   models,
		"unread":   problem(unread),
		"refused":  problem(refused),
	}))
}

func problem(err error) trainfit.Problem {
	failure, known := err.(*trainfit.GenericOpenAPIError)
	if !known {
		log.Fatal("no problem was answered: ", err)
	}
	return failure.Model().(trainfit.Problem)
}
