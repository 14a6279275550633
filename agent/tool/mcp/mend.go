package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"symbio/agent/tool"
	"symbio/internal/security/visible"
)

// tolerantTransport is a transport whose messages are mended. The SDK knows its connection for streamable HTTP by its type, so
// that one stays as it is: there the SDK gives each request its own stream.
type tolerantTransport struct{ sdk.Transport }

// Connect connects the transport.
func (t tolerantTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if _, http := t.Transport.(*sdk.StreamableClientTransport); http || err != nil {
		return c, err
	}
	return tolerantConnection{c}, nil
}

type tolerantConnection struct{ sdk.Connection }

// Read returns the next message of the server, mended.
func (c tolerantConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	return mended(m), err
}

// mended returns a message of a server as the protocol wants it, where it is clear what is meant: the id of a response that came
// back as a string, and content of a result that the SDK would refuse as a whole for one item.
func mended(m jsonrpc.Message) jsonrpc.Message {
	r, ok := m.(*jsonrpc.Response)
	if !ok {
		return m
	}
	if text, ok := r.ID.Raw().(string); ok {
		if n, err := strconv.ParseInt(text, 10, 32); err == nil { // the ids of the SDK are numbers
			if id, err := jsonrpc.MakeID(float64(n)); err == nil {
				r.ID = id
			}
		}
	}
	r.Result = mendedResult(r.Result)
	return r
}

// mendedResult returns the result of a call with a list of content that can be read.
func mendedResult(result json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if !bytes.Contains(result, []byte(`"content"`)) || json.Unmarshal(result, &fields) != nil || fields["content"] == nil {
		return result
	}
	var list []json.RawMessage
	changed := json.Unmarshal(fields["content"], &list) != nil
	if changed {
		list = []json.RawMessage{fields["content"]}
	}
	for i, one := range list {
		if again := mendedContent(one); again != nil {
			list[i], changed = again, true
		}
	}
	if !changed {
		return result
	}
	var err error
	if fields["content"], err = json.Marshal(list); err != nil {
		return result
	}
	if again, err := json.Marshal(fields); err == nil {
		return again
	}
	return result
}

// mendedContent returns an item of content that can be read, in place of one that cannot; nil if it can. Text may stand there without
// its object, and the data of pictures and sound may be a data URI.
func mendedContent(one json.RawMessage) json.RawMessage {
	var alone string
	if json.Unmarshal(one, &alone) == nil {
		return textContent(alone)
	}
	var c struct {
		Type string
		Text *string
		Data string
	}
	if json.Unmarshal(one, &c) == nil && c.Type == "text" && c.Text != nil || readable(one) {
		return nil
	}
	if head, data, ok := strings.Cut(c.Data, ";base64,"); ok && strings.HasPrefix(head, "data:") {
		var fields map[string]any
		if json.Unmarshal(one, &fields) == nil {
			fields["data"] = data
			if again, err := json.Marshal(fields); err == nil && readable(again) {
				return again
			}
		}
	}
	return textContent("[content that cannot be read here: " + visible.Prefix(oneLine(string(one)), maxWord) + "]")
}

// readable reports whether the SDK reads an item of content.
func readable(one json.RawMessage) bool {
	return json.Unmarshal(append(append([]byte(`{"content":[`), one...), `]}`...), new(sdk.CallToolResult)) == nil
}

func textContent(text string) json.RawMessage {
	item, _ := json.Marshal(map[string]string{"type": "text", "text": tool.Readable([]byte(text))}) // strings have a JSON form
	return item
}
