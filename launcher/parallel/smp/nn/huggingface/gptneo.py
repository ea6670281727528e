"""smp's names for the translations of GPT-Neo's states, which change nothing here."""

from launcher.parallel.smp.nn.huggingface.state_names import from_hugging_face, to_hugging_face

translate_state_dict_to_hf_gptneo = to_hugging_face
translate_hf_state_dict_to_smdistributed_gptneo = from_hugging_face
