"""smp's names for the translations of GPT-J's states, which change nothing here."""

from launcher.parallel.smp.nn.huggingface.state_names import from_hugging_face, to_hugging_face

translate_state_dict_to_hf_gptj = to_hugging_face
translate_hf_state_dict_to_smdistributed_gptj = from_hugging_face
translate_hf_gptj_state_dict_to_smdistributed_gptj = from_hugging_face  # as smp's guide has it
