"""Shell commands, PowerShell and Python that are about to run, and files that a tool would touch.

Begin with `guard`; each question has its module:

- Which rules exist, and what does each do? `rules`, with `rules/command_rules.json`.
- In which order does a script run? `script_walk` (statements), `command_walk` (one command),
  `program_walk` (one program), each a subclass of the next.
- What does a word become? `expand`, `arithmetic`; what does the shell know by then? `shell_state`,
  `shell_builtins`.
- What does a program do? `command_rules` (by patterns), `program_checks` and `network_checks` (by
  code), `effects` (to files), `outputs` (its output and the files it writes).
- Does it run code or another program? `launchers` and `interpreters` (code, by language),
  `carriers` and `carried_values` (programs inside programs, with `rules/carriers.json`).
- What does code in another language do? `python_code`, `python_calls`, `python_values`,
  `python_reach`; `powershell`; `other_languages` and `literals`.
- Where does a path lie? `paths`. What would a file tool do? `files`.
- Which types do they share? `event`, `call`, `context`.
"""
