"""The cloze data sets that people ask for by name."""

from __future__ import annotations

from rmsrepro.data.cloze.dataset import ClozeDataSet

_RC_DATA = "DeepMind's rc-data leads to the archives of questions (cs.nyu.edu/~kcho/DMQA); put {name}.tgz there"

CNN = ClozeDataSet("cnn", where=_RC_DATA.format(name="cnn"))
DAILYMAIL = ClozeDataSet("dailymail", where=_RC_DATA.format(name="dailymail"))
#: The same questions, their passages cut to four sentences when they are parsed.
CNN_TOP4 = ClozeDataSet("cnn_top4", stand_in="cnn", where=_RC_DATA.format(name="cnn"))
WIKITEXT2 = ClozeDataSet("wikitext2_cloze", where="put your archive of that name there, or use data=brown_cloze")
OWN = ClozeDataSet("cloze", where="put an archive or folder questions/{training,validation,test}/*.question there")
