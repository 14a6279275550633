package llm

// Instruction returns a prompt that asks for the schema, for servers that cannot enforce it.
func (o *Output) Instruction() string {
	return "Your answer is read by a program: nothing but one JSON document that fits this JSON schema, without a code block around it.\n" + string(o.Schema)
}
