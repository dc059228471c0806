"""Load checkpoints with transformers alone, and save their logits.

Run with `python -c` on a job as JSON: {"folders": {name: [folder, [[token, …], …], type of weights,
whether to run the code in the folder, a PEFT adapter if any]}, "threads": number, "out": file}. It
writes the float64 logits of each text, `name.0`, …, and the missing and unexpected keys as JSON.
"""

import json
import sys
from pathlib import Path
from typing import Any


def check_again(job: dict[str, Any]) -> None:
    """Do the job."""
    absent: Any = dict.fromkeys(("countergen_edit", "transformer_lens"))
    sys.modules.update(absent)  # importing them fails
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(job["threads"])  # by which sums are split, and so rounded
    logits, keys = {}, {}
    for name, (folder, texts, dtype, own_code, *adapter) in job["folders"].items():
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            trust_remote_code=own_code,
            local_files_only=True,
            dtype=getattr(torch, dtype),
            attn_implementation="eager",  # as TransformerLens runs it
            output_loading_info=True,
        )
        model, report = loaded
        if adapter:
            from peft import PeftModel

            model = PeftModel.from_pretrained(model, adapter[0])
        model.eval()
        keys[name] = sorted(str(key) for keys_of_kind in report.values() for key in keys_of_kind)
        for i, text in enumerate(texts):
            with torch.inference_mode():
                logits[f"{name}.{i}"] = model(torch.tensor([text])).logits[0].double().contiguous()
    save_file(logits, job["out"])
    Path(job["out"]).with_suffix(".json").write_text(json.dumps(keys), "utf-8")


if __name__ == "__main__":
    check_again(json.loads(sys.argv[1]))
