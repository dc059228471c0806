"""Use checkpoints in a process without this package; run with `python -c`.

Takes {"folders": {name: folder}, "ids": {name: [token, …]}, "out": file}; writes for each folder
its logits, greedy tokens with the cache, the same after a round trip through `save_pretrained`, and
errors.
"""

import copy
import importlib.abc
import json
import logging
import sys
from pathlib import Path


class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("countergen_edit", "transformer_lens"):
            raise ModuleNotFoundError(name)


def load(folder, **how):
    from transformers import AutoModelForCausalLM

    how = {"trust_remote_code": True, "output_loading_info": True} | how
    model, report = AutoModelForCausalLM.from_pretrained(folder, **how)
    return model.eval(), sorted(str(key) for keys in report.values() for key in keys)


def speak(model, ids, new_tokens):
    import torch

    ids = torch.tensor([ids])
    with torch.inference_mode():
        logits = model(ids).logits[0].double()
        new = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=new_tokens,
            do_sample=False,
            use_cache=True,
            eos_token_id=None,
            pad_token_id=0,
        )
    return {"logits": logits.tolist(), "greedy": new[0, ids.shape[1] :].tolist()}


def refusal(cls, folder):
    try:
        cls.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main(job_file):
    sys.meta_path.insert(0, Absent())
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    job = json.loads(Path(job_file).read_text())
    answers = {}
    for name, folder in job["folders"].items():
        ids = job["ids"][name]
        # As TransformerLens runs attention, so that nothing but the edit can differ.
        model, keys = load(folder, attn_implementation="eager")
        here = {"keys": keys, **speak(model, ids, job["new"])}
        here["refusals"] = [refusal(cls, folder) for cls in (AutoModelForCausalLM, AutoConfig)]
        here["tokens"] = AutoTokenizer.from_pretrained(folder)(job["text"]).input_ids
        answers[name] = here
        if name.endswith("folded"):
            continue  # stock classes, which others test
        here["deepcopy"] = speak(copy.deepcopy(model), ids, 4)
        again = folder + "-again"
        model.save_pretrained(again)
        model, keys = load(again)
        here["again"] = {"keys": keys, **speak(model, ids, 8)}
        half, keys = load(folder, dtype=torch.bfloat16)
        here["half"] = {"keys": keys, **speak(half, ids, 4), "dtype": str(half.dtype)}
        here["half_erasures"] = sorted(
            {str(t.dtype) for n, t in half.named_buffers() if ".erasure." in n}
        )
    Path(job["out"]).write_text(json.dumps(answers))


if __name__ == "__main__":
    main(sys.argv[1])
