"""Put a checkpoint on the Hugging Face hub, or on a server that speaks its language.

In: a finished checkpoint and a repository's name. Out: the address of the commit. Refused: a
checkpoint that was changed after it was saved, a name that is none, a hub that says no.
"""

from __future__ import annotations

from pathlib import Path

from countergen_edit.checkpoints.loading import open_checkpoint
from countergen_edit.errors import UserError


def push_to_hub(
    directory: str | Path, repository: str, *, private: bool = True, endpoint: str | None = None
) -> str:
    """Upload a checkpoint as one commit; the repository is made if it is not there.

    The token is the one of `hf auth login` or of HF_TOKEN; it is never written anywhere.

    Args:
        directory: what `save_checkpoint` made.
        repository: `user/name`.
        private: visibility of a repository that is made.
        endpoint: another server than the hub.

    Raises:
        UserError: the checkpoint is damaged, or the server refuses; with what it said.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    checkpoint = open_checkpoint(directory)
    api = HfApi(endpoint=endpoint)
    try:
        api.create_repo(repository, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repository,
            folder_path=checkpoint.folder,
            commit_message=f"Edited {Path(checkpoint.record['model']).name}",
            delete_patterns="*",  # the commit is the checkpoint, and nothing of an older one
        )
    except HFValidationError as error:
        raise UserError(f"push={repository!r} is no name of a repository: {error}") from error
    except HfHubHTTPError as error:
        raise UserError(f"the hub refused {repository}: {error}") from error
    except Exception as error:  # each transport has its own type for "no answer"
        raise UserError(
            f"the hub gave no answer ({type(error).__name__}); the checkpoint is safe in "
            f"{checkpoint.folder}"
        ) from error
    return str(commit.commit_url)
