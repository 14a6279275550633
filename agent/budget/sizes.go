package budget

import "symbio/agent/llm"

// perMessage is the size of the role and the JSON around a message, in bytes.
const perMessage = 12

// sizesOf returns the size of a request without its tools, and the size of the tools, in bytes.
func sizesOf(r llm.Request) (body, tools int) {
	body = len(r.System)
	for i := range r.Messages {
		body += sizeOf(&r.Messages[i])
	}
	if r.Output != nil {
		body += len(r.Output.Schema)
	}
	for i := range r.Tools {
		tools += perMessage + len(r.Tools[i].Name) + len(r.Tools[i].Description) + len(r.Tools[i].Schema)
	}
	return body, tools
}

// sizeOf returns the size of one message, with its calls, results and thoughts.
func sizeOf(m *llm.Message) int {
	n := perMessage + len(m.Text) + perImage*len(m.Images)
	for i := range m.Calls {
		n += perMessage + len(m.Calls[i].Name) + len(m.Calls[i].Args)
	}
	for i := range m.Results {
		n += perMessage + len(m.Results[i].Text) + perImage*len(m.Results[i].Images)
	}
	for i := range m.Thinking {
		n += len(m.Thinking[i].Text) + len(m.Thinking[i].Signature) + len(m.Thinking[i].Sealed) + len(m.Thinking[i].Raw)
	}
	return n
}
