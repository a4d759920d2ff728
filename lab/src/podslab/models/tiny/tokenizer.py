"""A byte-level tokenizer for the embedded model: any text goes in, and comes back."""

from tokenizers import AddedToken, pre_tokenizers
from transformers import Qwen2Tokenizer

from podslab.tasks.base import TAGS

PAD = "<pad>"
EOS = "<eos>"

# The system prompt is left out: at one token per byte it would be most of every sequence, and this
# model knows no other form of answer than the one that it asks for.
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.role == 'user' %}{{ message.content + '\\n' }}"
    "{% elif message.role == 'assistant' %}{{ message.content + eos_token }}"
    "{% endif %}{% endfor %}"
)


def build_tokenizer() -> Qwen2Tokenizer:
    """One token for each byte, one for each of the four tags, padding and end of sequence.

    Of Qwen2's own class, which is what transformers loads for a model of its architecture.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate([PAD, EOS, *TAGS, *alphabet])}
    tokenizer = Qwen2Tokenizer(
        vocab=vocabulary,
        merges=[],
        unk_token=PAD,  # no byte is unknown, but the class needs one
        pad_token=PAD,
        eos_token=EOS,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )
    # The tags are no special tokens, so that skip_special_tokens leaves them in what is graded.
    tokenizer.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in TAGS])
    return tokenizer
