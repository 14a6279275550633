package openai

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/wire"
)

// Servers of chat completions send thoughts and signatures in fields of their own: reasoning_content,
// reasoning_details, extra_content. They are kept as they are (llm.Thinking.Raw), and sent back to the same
// model with the message or the call that they came with.

// keptNames begin the names of the fields of messages and calls that are kept. The fields of the API itself
// are not among them, so that what a peer wrote into Raw cannot replace them.
var keptNames = []string{"reasoning", "thinking", "thought", "signature", "extra_content", "provider_specific"}

// isKept reports whether the field of that name is kept.
func isKept(name string) bool {
	return slices.ContainsFunc(keptNames, func(begin string) bool { return strings.HasPrefix(name, begin) })
}

// hasKept reports whether JSON may have fields that are kept. Most has none, and is not read again.
func hasKept(data []byte) bool {
	return slices.ContainsFunc(keptNames, func(begin string) bool { return bytes.Contains(data, []byte(`"`+begin)) })
}

// maxFields limits the fields of one message or call.
const maxFields = 16

// fields collects the fields of a message or a call as their pieces arrive. The zero value is usable.
type fields struct {
	names []string // in the order of arrival
	list  []*field // pointers, because a strings.Builder may not be copied
}

// field collects the pieces of one field: strings are joined, lists too; of other values the last counts.
type field struct {
	text    strings.Builder
	entries []json.RawMessage
	last    json.RawMessage
}

// add adds the fields of a JSON object that are kept. It returns their number of bytes.
func (f *fields) add(object []byte) (size int) {
	var all map[string]json.RawMessage
	if json.Unmarshal(object, &all) != nil {
		return 0
	}
	for name, value := range all {
		if isKept(name) && string(value) != "null" && string(value) != `""` {
			f.addPiece(name, value)
			size += len(value)
		}
	}
	return size
}

// addPiece adds a piece of a field.
func (f *fields) addPiece(name string, value json.RawMessage) {
	i := slices.Index(f.names, name)
	if i < 0 {
		if len(f.names) == maxFields {
			return
		}
		i, f.names, f.list = len(f.names), append(f.names, name), append(f.list, &field{})
	}
	var text string
	var entries []json.RawMessage
	switch one := f.list[i]; {
	case json.Unmarshal(value, &text) == nil:
		one.text.WriteString(text)
	case json.Unmarshal(value, &entries) == nil:
		one.entries = append(one.entries, entries...)
	default:
		one.last = slices.Clone(value)
	}
}

// raw returns the fields as a JSON object; nil if there are none, or more than llm.MaxRaw bytes.
func (f *fields) raw() json.RawMessage {
	object := map[string]any{}
	for i, name := range f.names {
		switch one := f.list[i]; {
		case one.text.Len() > 0:
			object[name] = one.text.String()
		case len(one.entries) > 0:
			object[name] = joinEntries(one.entries)
		case one.last != nil:
			object[name] = one.last
		}
	}
	b, err := wire.Encode(object)
	if b = bytes.TrimSpace(b); err != nil || len(object) == 0 || len(b) > llm.MaxRaw {
		return nil
	}
	return b
}

// piecesOf names the field of a list's entry that comes in pieces, by the entry's type: the entries of OpenRouter
// and of Mistral.
var piecesOf = map[string]string{"reasoning.text": "text", "reasoning.summary": "summary", "text": "text", "thinking": "thinking"}

// entryHead is what makes two entries pieces of one.
type entryHead struct {
	Type  string
	Index json.Number
}

// headOf returns the head of an entry; the zero head if it has none.
func headOf(entry json.RawMessage) (head entryHead) {
	_ = json.Unmarshal(entry, &head) // an entry of another type is a whole one
	return head
}

// joinEntries joins the consecutive entries that are pieces of one. Entries of other types stay as they are.
func joinEntries(entries []json.RawMessage) (joined []json.RawMessage) {
	for len(entries) > 0 {
		head, n := headOf(entries[0]), 1
		for piecesOf[head.Type] != "" && n < len(entries) && headOf(entries[n]) == head {
			n++
		}
		joined = append(joined, joinPieces(entries[:n], piecesOf[head.Type]))
		entries = entries[n:]
	}
	return joined
}

// joinPieces returns one entry of several. The field named part is joined; of the others the last counts.
func joinPieces(entries []json.RawMessage, part string) json.RawMessage {
	if len(entries) == 1 && part != "thinking" {
		return slices.Clone(entries[0])
	}
	whole, parts := map[string]json.RawMessage{}, fields{}
	for _, e := range entries {
		var one map[string]json.RawMessage
		_ = json.Unmarshal(e, &one) // its head was read, so it is an object
		for name, value := range one {
			if name == part {
				parts.addPiece(name, value)
			} else if string(value) != "null" || whole[name] == nil {
				whole[name] = value
			}
		}
	}
	var partsOnly map[string]json.RawMessage
	if json.Unmarshal(parts.raw(), &partsOnly) == nil {
		whole[part] = partsOnly[part]
	}
	b, err := wire.Encode(whole)
	if err != nil {
		return entries[0] // cannot happen: all values are JSON
	}
	return bytes.TrimSpace(b)
}

// sentBack returns the fields that belong to a message (call = "") or to one of its calls, for the model
// own. Of others than those that are kept it has only content; see addThoughts.
func sentBack(m llm.Message, own, call string) map[string]json.RawMessage {
	var back map[string]json.RawMessage
	for _, t := range m.Thinking {
		if t.Model == own && t.CallID == call && len(t.Raw) > 0 && json.Unmarshal(t.Raw, &back) != nil {
			return nil
		}
	}
	maps.DeleteFunc(back, func(name string, _ json.RawMessage) bool { return name != "content" && !isKept(name) })
	return back
}

// withFields encodes v, which becomes a JSON object, and adds the fields.
func withFields(v any, more map[string]json.RawMessage) ([]byte, error) {
	b, err := wire.Encode(v)
	if err != nil || len(more) == 0 {
		return b, err
	}
	rest, err := wire.Encode(more)
	if err != nil {
		return nil, err
	}
	b = bytes.TrimSpace(b)
	return append(append(b[:len(b)-1], ','), rest[1:]...), nil
}
