"""The memory network on tasks in the manner of bAbI, which are generated here.

    python bench/babi.py            # results in bench/babi.json
    python bench/babi.py --table    # prints them as the table of docs/train.md

A story tells where people go and what they take; the question is about the last place of a person
(one supporting fact), or of an object that a person carries (two facts), and the answer is one
word. The stories of training and of the test are drawn with different seeds.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

import torch
from torch import Tensor

import glassformer as gf

RESULTS = Path(__file__).parent / "babi.json"
PEOPLE = ("mary", "john", "daniel", "sandra")
PLACES = ("kitchen", "garden", "office", "bathroom", "hallway", "bedroom")
THINGS = ("apple", "football", "milk")
WORDS = ("<pad>", *PEOPLE, *PLACES, *THINGS, "went", "to", "the", "took", "where", "is")
IDS = {word: id for id, word in enumerate(WORDS)}
SENTENCES, LENGTH = 10, 5
STEPS, BATCH, TEST = 1500, 64, 1000
Story = tuple[list[str], str, str]  # sentences, question, answer


def one_fact(draws: random.Random) -> Story:
    """Where is a person?"""
    where, story = {}, []
    for _ in range(draws.randint(2, SENTENCES)):
        person, place = draws.choice(PEOPLE), draws.choice(PLACES)
        where[person] = place
        story.append(f"{person} went to the {place}")
    person = draws.choice(list(where))
    return story, f"where is {person}", where[person]


def two_facts(draws: random.Random) -> Story:
    """Where is a thing that a person has taken, and carries?"""
    where: dict[str, str] = {}
    owner: dict[str, str] = {}
    story = []
    for number in range(SENTENCES):
        person = draws.choice(PEOPLE)
        free = [thing for thing in THINGS if thing not in owner]
        if free and where.get(person) and (number == SENTENCES - 2 or draws.random() < 0.3):
            owner[thing := draws.choice(free)] = person
            story.append(f"{person} took the {thing}")
        else:
            where[person] = draws.choice(PLACES)
            story.append(f"{person} went to the {where[person]}")
    if not owner:
        return two_facts(draws)
    thing = draws.choice(list(owner))
    return story, f"where is the {thing}", where[owner[thing]]


TASKS = {"one supporting fact": one_fact, "two supporting facts": two_facts}


def rows(task: str, count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Returns stories of [row, sentence, word], questions of [row, word] and answers of [row]."""
    draws = random.Random(seed)
    stories = torch.zeros(count, SENTENCES, LENGTH, dtype=torch.long)
    questions = torch.zeros(count, LENGTH, dtype=torch.long)
    answers = torch.zeros(count, dtype=torch.long)
    for row in range(count):
        story, question, answer = TASKS[task](draws)
        for number, sentence in enumerate(story):
            ids = [IDS[word] for word in sentence.split()]
            stories[row, number, : len(ids)] = torch.tensor(ids)
        ids = [IDS[word] for word in question.split()]
        questions[row, : len(ids)] = torch.tensor(ids)
        answers[row] = IDS[answer]
    return stories, questions, answers


def logits(model: gf.Model, stories: Tensor, questions: Tensor) -> Tensor:
    found = model(questions, attention_mask=questions > 0, memory_tokens=stories,
                  memory_tokens_mask=stories > 0).logits  # fmt: skip
    assert found is not None
    return found


def accuracy(task: str, hops: int) -> float:
    model = gf.create("memory-network", seed=1, vocab_size=len(WORDS), hidden_size=32,
                      num_hops=hops, memory_size=SENTENCES)  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    stories, questions, answers = rows(task, STEPS * BATCH // 4, seed=1)
    torch.manual_seed(1)
    for _ in range(STEPS):
        at = torch.randint(len(answers), (BATCH,))
        loss = torch.nn.functional.cross_entropy(
            logits(model, stories[at], questions[at]), answers[at]
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    model.eval()
    stories, questions, answers = rows(task, TEST, seed=2)
    with torch.inference_mode():
        return float((logits(model, stories, questions).argmax(-1) == answers).float().mean())


def measure() -> None:
    found = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    for task in TASKS:
        for hops in (1, 3):
            known = found.setdefault(task, {})
            if str(hops) not in known:
                known[str(hops)] = round(accuracy(task, hops), 4)
                RESULTS.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
                print(task, hops, known[str(hops)], flush=True)


def table() -> None:
    print("| task | 1 hop | 3 hops |\n|---|---:|---:|")
    for task, hops in json.loads(RESULTS.read_text("utf-8")).items():
        print(f"| {task} | {hops['1']:.1%} | {hops['3']:.1%} |")


if __name__ == "__main__":
    asked = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    asked.add_argument("--table", action="store_true")
    torch.set_num_threads(1)
    table() if asked.parse_args().table else measure()
