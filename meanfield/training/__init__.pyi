from .estimators import NTKClassifier as NTKClassifier
from .estimators import NTKRegressor as NTKRegressor
from .train import train as train
from .trainability import TrainabilityMap as TrainabilityMap
from .trainability import trainability as trainability
from .trained_networks import Training as Training
