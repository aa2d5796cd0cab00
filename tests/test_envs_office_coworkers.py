"""Coworkers who are asked by chat or mail: scripted, or played by a model."""

from __future__ import annotations

import pytest
from officeplay import playing

from miroir.envs.office.scene import scenes
from miroir.serve.environment import UnknownCoworker

TASK = "chase-approval-1"
COWORKER = scenes()[TASK].situation.coworkers[0]


def test_a_coworker_answers_a_direct_message_with_the_fact() -> None:
    """Without a model a question about the matter is answered at once, in the same conversation."""
    with playing(TASK) as office:
        office.call("chat_direct_send", {"person": COWORKER.email, "text": "Can you give me the approval?"})
        newest = office.call("chat_direct_read", {"person": COWORKER.email})["messages"][0]
        assert (newest["from"], newest["text"]) == (COWORKER.email, COWORKER.fact)
        assert office.coworker_turns() == []
        assert list(office.grade().harms) == []


def test_a_coworker_answers_a_mail() -> None:
    """A mail is answered by mail, in its thread, unread in the inbox."""
    with playing(TASK) as office:
        mail = office.call("mail_send", {"to": [COWORKER.email], "subject": "Approval", "body": "May I have it?"})
        unread = office.call("mail_list", {"unread_only": True})["mails"][0]
        assert (unread["from"], unread["subject"]) == (COWORKER.email, "Re: Approval")
        assert office.call("mail_thread", {"mail_id": mail["mail_id"]})["mails"][-1]["body"] == COWORKER.fact
        assert list(office.grade().harms) == []


def test_a_coworker_who_is_asked_nothing_asks_back() -> None:
    """A message that is not about the matter gets no fact; the next one may."""
    with playing(TASK) as office:
        office.call("chat_direct_send", {"person": COWORKER.email, "text": "Hello!"})
        office.call("chat_direct_send", {"person": COWORKER.email, "text": "I mean the approval."})
        texts = [line["text"] for line in office.call("chat_direct_read", {"person": COWORKER.email})["messages"]]
    assert texts == [COWORKER.fact, "I mean the approval.", COWORKER.otherwise, "Hello!"]


def test_a_model_gets_the_conversation_and_the_fact() -> None:
    """With a model nothing is scripted: the turn holds a system message with the fact, and the chat so far."""
    with playing(TASK, coworkers=True) as office:
        assert office.coworker_turns() == []
        office.call("chat_direct_send", {"person": COWORKER.email, "text": "Do you approve?"})
        (turn,) = office.coworker_turns()
        assert turn["coworker"] == COWORKER.name
        assert turn["messages"][0]["role"] == "system"
        assert COWORKER.fact in turn["messages"][0]["content"]
        assert turn["messages"][1:] == [{"role": "user", "content": "Do you approve?"}]
        assert office.coworker_reply(COWORKER.name, "Yes, PA-1.") == 200
        assert office.coworker_turns() == []
        office.call("chat_direct_send", {"person": COWORKER.email, "text": "For how many?"})
        roles = [message["role"] for message in office.coworker_turns()[0]["messages"]]
        assert roles == ["system", "user", "assistant", "user"]
        assert office.grade().diagnostics["coworker_replies"] == 1


def test_a_model_answers_mail_and_chat_one_after_the_other() -> None:
    """Two conversations that wait are two turns, one after the other; a mail's turn shows its subject."""
    with playing(TASK, coworkers=True) as office:
        office.call("mail_send", {"to": [COWORKER.email], "subject": "Approval", "body": "May I?"})
        office.call("chat_direct_send", {"person": COWORKER.email, "text": "See my mail."})
        assert office.coworker_turns()[0]["messages"][-1]["content"] == "See my mail."
        office.coworker_reply(COWORKER.name, "Looking.")
        assert office.coworker_turns()[0]["messages"][-1]["content"] == "Subject: Approval\n\nMay I?"
        office.coworker_reply(COWORKER.name, "Yes.")
        assert office.coworker_turns() == []
        assert office.call("mail_list", {})["mails"][0]["subject"] == "Re: Approval"


def test_only_who_owes_a_reply_can_reply() -> None:
    """A reply of somebody who was not asked is refused."""
    with playing(TASK, coworkers=True) as office, pytest.raises(UnknownCoworker, match="owes no reply"):
        office.coworker_reply(COWORKER.name, "Unasked.")
