"""Words that stand in a great many requests: whoever meets one of them has learned little."""

__all__ = ["COMMON_WORDS"]

_COMMON_WORD_LIST = """
a about access account action add after again all also am an and another answer any anyone
are article as ask at attack away back bad based be because been before being best better
between book both build business but buy by call can case change character check child
children city class clean code come common company computer consider contain control copy
correct could country course create customer data date day deal describe design detail develop
did different do document does down draft drive each easy edit effect email end enter essay
even event every example explain fact family feel file final find first follow following food
for form free friend from full function game general generate get girl give go good got great
group guide had hand has have he health help her here high him his history home hot house how
i idea if image important in include increase information input instructions into is issue it
its job just keep key kind know language large last law learn least leave less let letter life
like line list little live local long look love machine made main make making man manager many
market may me mean meaning media message method might model money month more most move movie
much music must my name national need network never new news next no not note now number of off
office old on one online only open option or order other our out output over own paper part
party password pay people person phone picture place plan play please point police policy post
power print problem process produce product program project provide public put question read
real reason record remove report request research response result return review right role run
same say school science scene script search secret security see seem sell send sentence server
service set share she short should show side sign simple since site small so social software
some someone something source speech staff start state step still stop story student study such
suggest support system table take talk teacher team tell term test text than that the their them
then there these they thing think this those three through time tips to today tool topic travel
try two type understand until up us use used user using value very video want was watch water
way we web week well were what when where which while white who why will with without woman
women word work world would write writing year you young your
"""

COMMON_WORDS = frozenset(_COMMON_WORD_LIST.split())
