"""Torch's own samples of operators' arguments (OpInfo). Takes seconds to load.

Without it, tools/op_coverage has no samples to compare with eager.
"""

from __future__ import annotations

import torch

# Otherwise the import would forbid setting torch.backends' flags from then on, as torch's own tests want.
with torch.backends.__allow_nonbracketed_mutation():
    # The module with the list of OpInfos, op_db.
    from torch.testing._internal import common_methods_invocations

    # A copy with a gap beside each element, filled with NaN or another filler.
    from torch.testing._internal.common_utils import noncontiguous_like as noncontiguous_like

invocations = common_methods_invocations
