"""The four template tasks of Seshadri et al. 2022 on classifiers and masked language models."""
