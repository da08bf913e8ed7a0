"""pRMSNorm: RMSNorm with the statistic from a share p of the elements (paper section 5; 6.25 % in its tables)."""

from __future__ import annotations

from rmsrepro.norms import rmsnorm


class Family(rmsnorm.Family):
    """Partial RMSNorm at every site; conf/norm/prmsnorm.yaml holds the share."""
