"""The memory-ordering model: instructions, rules, readings and the engines that judge a program."""
