"""Rules that recognise failures in logs.

stock/          the rules that come with kedge, as TOML
source          reads a rule file and checks it
check           tests the examples of rule files
compile         writes compiled.json
compiled.json   the stock rules in compiled form
compiled_rules  the compiled form
packaged        loads compiled.json
rule_files      rule files of sites and users
ruleset         compiled rules, ready to use
scan            finds the lines that rules match
expression      conditions over numbers in a rule
literals        constant text that a pattern needs
literal_search  which constant texts occur in a log
literal_lines   the lines that contain them
"""
