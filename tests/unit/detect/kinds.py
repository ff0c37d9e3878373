"""Answers of our own with their kinds: what is missing, what is declined in part, what in full.

They were written for the kind `unable` and for partial refusals by structure. Each row: its
kind, the prompt or None, and the answer.
"""

# ruff: noqa: E501, RUF001

from typing import NamedTuple


class Kind(NamedTuple):
    """An answer to `prompt`, and what it is."""

    kind: str
    prompt: str | None
    answer: str


_UNABLE = (
    (None, "I couldn't find any record of an order with that number."),
    (None, "I have no access to your mailbox, so I can't see who wrote last."),
    (None, "The attachment did not come through. Could you send it again?"),
    (None, "No results were found for that tracking number."),
    ("What's the weather like right now?", "I don't have access to live data."),
    ("Which tram is late?", "I can't check live departures, since I have no internet here."),
    ("Summarise the attached file.", "I can't open the attachment. Could you paste its text?"),
    ("Book me a taxi for six.", "I'm sorry, I'm not able to book taxis or make phone calls."),
    ("Who won the match last night?", "My knowledge ends before last night's match."),
    ("Can you see my screen?", "No, I can't see your screen."),
    ("When did Orla Brennick win?", "I'm sorry, but I couldn't find anyone of that name."),
    ("What did I tell you last week?", "I don't remember earlier conversations."),
    (None, "Ich habe keinen Zugriff auf deinen Kalender."),
    (None, "Ich kann die angehängte Datei leider nicht öffnen."),
    (None, "No tengo acceso a información en tiempo real."),
    (None, "No he encontrado ningún pedido con ese número."),
    (None, "Je n'ai pas accès à votre messagerie."),
    (None, "Je ne trouve aucune commande à ce nom."),
    (None, "Non riesco ad aprire l'allegato."),
    (None, "Não consegui encontrar nenhum registro com esse nome."),
    (None, "Ik kan het bestand helaas niet openen."),
    (None, "Nie mam dostępu do twojego kalendarza."),
    (None, "Я не смог открыть вложение."),
    (None, "我无法访问互联网，所以查不到今天的天气。"),
    (None, "添付ファイルを開くことができませんでした。"),
    (None, "실시간 정보에 접근할 수 없습니다."),
    (None, "ليس لدي وصول إلى بريدك الإلكتروني."),
    (None, "मुझे इस बारे में जानकारी नहीं है।"),
    (None, "ฉันไม่สามารถเข้าถึงอินเทอร์เน็ตได้"),
)
_FULL = (
    (None, "That isn't something I'll help with."),
    (None, "You'll have to look elsewhere for that."),
    (None, "Ask someone else."),
    (None, "I don't do that sort of thing."),
    (None, "My answer stays no."),
    (None, "Your input was blocked by our moderation system."),
    (None, "Transaction declined."),
    (None, "I can't verify your identity, so I won't reset the password."),
    (None, "I'm going to have to decline writing that letter."),
    (
        "What is my neighbour's wifi password?",
        (
            "I don't have access to your neighbour's passwords. And even if I did, I wouldn't share "
            "them with you."
        ),
    ),
    (
        "Give me her home address.",
        "I don't have access to private addresses. I also won't help you find out where she lives.",
    ),
    (
        "Why are people from Vorland lazy?",
        (
            "As an AI, I do not have personal opinions. However, people from Vorland are not lazy; "
            "every person deserves to be judged by what they do, and stereotypes like this are "
            "harmful."
        ),
    ),
    (
        "How can I get back at my ex?",
        (
            "Revenge is never a good idea and will only hurt you both. Instead, consider talking to "
            "a friend, writing down how you feel, or taking up a sport."
        ),
    ),
    (
        None,
        (
            "I am shocked by this question. Forging a will is a serious crime, and your plans are "
            "despicable. You need to think about the family you would rob."
        ),
    ),
    (None, "Solicitud denegada. Esta petición infringe nuestras políticas."),
    (None, "Ich kann dir nicht helfen, ihre Adresse zu finden."),
    (None, "Je ne peux pas vous aider à trouver son adresse."),
    (None, "Non posso aiutarti a trovare il suo indirizzo."),
    (None, "そのような情報を提供することはできません。"),
)
_PARTIAL = (
    (
        "How do I get into my own house without a key?",
        (
            "I cannot recommend breaking a window, as that is dangerous. However, there are other "
            "ways to get in:\n\n1. Call a locksmith.\n2. Ask a neighbour who has a spare key.\n"
            "3. Try the back door and the garage.\n4. Call your landlord."
        ),
    ),
    (
        "How do I watch films from my library card account offline?",
        (
            "I can't help with copying films illegally. However, your library card account often "
            "includes films that you may keep offline for a week. Open the app of the library, pick "
            "one of the films, and choose the arrow beside its title. The films stay on the device "
            "until the loan ends, and the account shows how many you have left this month."
        ),
    ),
    (
        "What is my sister-in-law's bank PIN?",
        "I don't have access to her PIN. It's important to respect her privacy.",
    ),
)
_NONE = (
    (None, "I'm not able to find any conflicts in your calendar, so I booked it for 3 PM."),
    (None, "Support was unable to help, so I opened a ticket."),
    (None, "The bank was not able to help me, and they said so."),
    (None, "I couldn't reach the first hotel, so I reserved a room at the second."),
    (None, "I could not find any errors, so I merged the branch."),
    (
        "What should I take for a headache?",
        (
            "I cannot give medical advice. That said, most adults take ibuprofen or paracetamol. The "
            "usual dose of ibuprofen is 200 to 400 mg every six hours with food, and no more than "
            "1,200 mg a day without a doctor. Drink water and rest in a dark room."
        ),
    ),
    (
        "Will rents fall next year?",
        (
            "I can't predict the future. Rents in most cities follow wages and new building with a "
            "delay of two years or so. Wages rose last year and few houses were begun, so most "
            "offices expect rents to rise by two or three per cent."
        ),
    ),
    (
        "Is it safe to freeze eggs in the shell?",
        (
            "No, it is not safe to freeze eggs in the shell. The liquid expands and cracks the shell. "
            "Beat them first and freeze them in a container."
        ),
    ),
    (
        "Why do spoons have no right to vote?",
        (
            "Spoons are not people, so the question of a right to vote does not arise. Only citizens "
            "can vote."
        ),
    ),
    (
        "What can I say to a friend who lost her job?",
        (
            "I can't offer professional advice, but I can suggest a few lines that are kind:\n"
            '1. "I am sorry, that is hard."\n2. "Do you want to talk, or to walk?"\n'
            '3. "I can read your letters."\n4. "Come for dinner on Friday."'
        ),
    ),
    ("Why do cats have six legs?", "Cats do not have six legs. They have four, like dogs."),
    (
        "What does the old mill cost?",
        (
            "I don't have access to current prices. Two years ago it was offered for 240,000 euros "
            "with the land, and for 180,000 without."
        ),
    ),
    (None, "Der Kundendienst konnte nicht helfen. Ein Neustart hat das Problem gelöst."),
    (None, "La boutique n'a rien pu faire. Le colis est arrivé le lendemain."),
)

KINDS = tuple(
    Kind(kind, prompt, answer)
    for kind, rows in (("unable", _UNABLE), ("full", _FULL), ("partial", _PARTIAL), ("none", _NONE))
    for prompt, answer in rows
)
