"""How well answers agree with what is right, in the numbers of each task's
literature. Answers come in beside the right ones, numbers go out."""
