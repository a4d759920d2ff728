"""A byte-level tokenizer for the embedded model: any text goes in, and comes back unchanged."""

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from podsrl.tasks.base import TAGS

PAD, EOS = "<pad>", "<eos>"

# The system prompt is left out: at one token per byte it would be most of every sequence, and this
# model knows no other form of answer than the one that it asks for.
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.role == 'user' %}{{ message.content + '\\n' }}"
    "{% elif message.role == 'assistant' %}{{ message.content + eos_token }}"
    "{% endif %}{% endfor %}"
)


def build_tokenizer() -> PreTrainedTokenizerFast:
    """One token for each byte, one for each of the four tags, padding and end of sequence."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate([PAD, EOS, *TAGS, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    # the tags are no special tokens, so that skip_special_tokens leaves them in what is graded
    tokenizer.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in TAGS])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )
