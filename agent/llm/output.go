package llm

// Instruction asks for the form in words, for models that cannot be held to it.
func (o *Output) Instruction() string {
	return "Your answer is read by a program: nothing but one JSON document that fits this JSON schema, without a code block around it.\n" + string(o.Schema)
}
