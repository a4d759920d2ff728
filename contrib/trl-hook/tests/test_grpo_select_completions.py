import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from .testing_utils import TrlTestCase


class VarianceTrainer(GRPOTrainer):
    """Trains on the lowest and the highest rewards of each group."""

    num_selected = 2

    def _select_completions(self, rewards):
        total = rewards.nansum(-1)
        order = total.argsort(dim=1)
        low = self.num_selected // 2
        high = self.num_selected - low
        return torch.cat([order[:, :low], order[:, order.size(1) - high :]], dim=1)


def length_reward(completions, **kwargs):
    return [float(sum(map(ord, completion)) % 101) for completion in completions]


class TestSelectCompletions(TrlTestCase):
    def make(self, trainer_class=VarianceTrainer, **fields):
        args = GRPOConfig(
            output_dir=self.tmp_dir,
            per_device_train_batch_size=8,
            num_generations=8,
            max_completion_length=8,
            max_steps=2,
            learning_rate=0.1,
            report_to="none",
            **fields,
        )
        return trainer_class(
            model="trl-internal-testing/tiny-Qwen2ForCausalLM-2.5",
            reward_funcs=length_reward,
            args=args,
            train_dataset=Dataset.from_list([{"prompt": "The sky is"}] * 8),
        )

    def rows_of_passes(self, trainer):
        rows = []
        compute = trainer._get_per_token_logps_and_entropies

        def counted(model, input_ids, *args, **kwargs):
            rows.append(len(input_ids))
            return compute(model, input_ids, *args, **kwargs)

        trainer._get_per_token_logps_and_entropies = counted
        trainer.train()
        return rows

    def test_only_selected_completions_are_passed_through_the_model(self):
        assert set(self.rows_of_passes(self.make())) == {2}
        assert set(self.rows_of_passes(self.make(GRPOTrainer))) == {8}

    def test_rewards_are_computed_once_for_all_generations(self):
        trainer = self.make()
        asked = []
        score = trainer._calculate_rewards

        def counted(inputs, *args):
            asked.append(len(inputs))
            return score(inputs, *args)

        trainer._calculate_rewards = counted
        trainer.train()
        assert asked == [8, 8]

    def test_advantages_are_those_of_the_selected_group(self):
        trainer = self.make(scale_rewards="none")
        trainer.train()
        advantages = torch.tensor(list(trainer._logs["advantages"])).view(-1, 2)
        torch.testing.assert_close(advantages.sum(1), torch.zeros(len(advantages)))

    def test_selecting_all_is_the_same_as_not_selecting(self):
        class AllTrainer(VarianceTrainer):
            def _select_completions(self, rewards):
                return torch.arange(rewards.size(1)).expand(rewards.size(0), -1)

        weights = []
        for trainer_class in (GRPOTrainer, AllTrainer):
            trainer = self.make(trainer_class, seed=3)
            trainer.train()
            weights.append([parameter.detach().clone() for parameter in trainer.model.parameters()])
        for plain, selected in zip(*weights, strict=True):
            torch.testing.assert_close(plain, selected, rtol=0, atol=0)
