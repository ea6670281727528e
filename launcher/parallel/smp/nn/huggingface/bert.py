"""smp's names for the translations of BERT's states, which change nothing here."""

from launcher.parallel.smp.nn.huggingface.state_names import from_hugging_face, to_hugging_face

translate_state_dict_to_hf_bert = to_hugging_face
translate_hf_state_dict_to_smdistributed_bert = from_hugging_face
