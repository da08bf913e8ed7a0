from rmsrepro.data.cloze.dataset import ClozeDataSet
DATA_SET = ClozeDataSet("brown_cloze")
