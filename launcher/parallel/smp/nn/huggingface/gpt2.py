"""smp's names for the translations of GPT-2's states, which change nothing here."""

from launcher.parallel.smp.nn.huggingface.state_names import from_hugging_face, to_hugging_face

translate_state_dict_to_hf_gpt2 = to_hugging_face
translate_hf_state_dict_to_smdistributed_gpt2 = from_hugging_face
translate_hf_state_dict_to_smdistributed = from_hugging_face  # its name in older scripts
