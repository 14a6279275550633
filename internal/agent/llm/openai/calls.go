package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"strings"

	"symbio/agent/llm"
)

// maxCalls limits the calls of one answer, and so the memory that a server can use here.
const maxCalls = 256

var errManyCalls = errors.New("more than 256 calls in one answer")

// fragment is a part of a call as a server streams it, or a whole call.
type fragment struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"` // a string, or an object
	} `json:"function"`
	// raw is the whole fragment if it may have fields of the server's own.
	raw json.RawMessage
}

// calls joins fragments to calls. Servers differ in how they mark which fragment belongs to which
// call; see find.
type calls struct{ list []*partial }

// partial is a call that may still grow.
type partial struct {
	// index is the server's number of the call; -1 = it gave none.
	index int
	// id and name come from the first fragment that has them.
	id   string
	name string
	args strings.Builder
	// own are fields of the server's own.
	own fields
}

// wholeCall is a call that is whole, with the fields of the server's own.
type wholeCall struct {
	llm.ToolCall
	own *fields
}

func (c *calls) empty() bool { return len(c.list) == 0 }

// add adds a fragment to the call it belongs to, or begins one.
func (c *calls) add(f fragment) error {
	p := c.find(f)
	if p == nil {
		if len(c.list) == maxCalls {
			return errManyCalls
		}
		p = &partial{index: -1}
		if f.Index != nil {
			p.index = *f.Index
		}
		c.list = append(c.list, p)
	}
	p.id = cmp.Or(p.id, f.ID)
	p.name = cmp.Or(p.name, f.Function.Name)
	p.write(f.Function.Arguments)
	p.own.add(f.raw)
	return nil
}

// find returns the call that a fragment continues, or nil when it begins one. The index decides if
// the server gives one, and else it is the last call. But there are servers that give every call the
// same index, and servers that repeat id and name with each fragment. So a fragment also begins a
// call when it has another id or another name, or when it brings a name and arguments and the
// call so far is whole: one document more would spoil it.
func (c *calls) find(f fragment) *partial {
	var p *partial
	for i := len(c.list) - 1; i >= 0; i-- {
		if f.Index == nil || c.list[i].index == *f.Index {
			p = c.list[i]
			break
		}
	}
	name, args := f.Function.Name, string(f.Function.Arguments)
	switch {
	case p == nil:
		return nil
	case name == "" && f.Index != nil:
		return p // even with another id: some servers make one up for each fragment
	case f.ID != "" && p.id != "" && f.ID != p.id, name != "" && p.name != "" && name != p.name:
		return nil
	case name != "" && p.whole() && (f.ID == "" || args != "" && args != `""`):
		return nil
	}
	return p
}

// whole reports whether the arguments so far are a JSON document. Long ones are not looked at: a server that asks for it with
// each piece would cost time by their square.
func (p *partial) whole() bool {
	args := p.args.String()
	return strings.HasSuffix(args, "}") && len(args) <= maxChecked && json.Valid([]byte(args))
}

// maxChecked is the longest arguments that whole reads.
const maxChecked = 256 << 10

// write appends arguments. A string is a piece of their JSON text; any other value is all of them,
// as some servers send.
func (p *partial) write(args json.RawMessage) {
	args = bytes.TrimSpace(args)
	if len(args) == 0 || string(args) == "null" {
		return
	}
	var piece string
	if json.Unmarshal(args, &piece) == nil {
		p.args.WriteString(piece)
		return
	}
	if p.args.String() == "{}" {
		p.args.Reset() // an empty object, and the real arguments after it
	}
	if !p.whole() {
		p.args.Write(args)
	}
}

// whole returns the calls. cut means that the answer reached its maximal length: a call whose
// arguments are not an object was then not completed and is left out.
func (c *calls) whole(cut bool) (list []wholeCall) {
	for _, p := range c.list {
		args := llm.Args(p.args.String())
		if cut && (p.args.Len() == 0 || args[0] != '{') {
			continue
		}
		list = append(list, wholeCall{llm.ToolCall{ID: p.id, Name: p.name, Args: args}, &p.own})
	}
	return list
}
