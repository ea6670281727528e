"""Offline validation of a CreateTrainingJob request against SageMaker's limits."""
