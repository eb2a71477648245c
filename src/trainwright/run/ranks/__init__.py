"""Trainings on several ranks: started by torchrun, led by the first."""
