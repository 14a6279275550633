package mcp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestResultsKeepWhatCanBeRead(t *testing.T) {
	const picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
	for result, want := range map[string][]string{
		`{"content":[{"type":"text","text":"a"}],"isError":true}`:                                             {"a"},
		`{"content":[{"type":"text","text":"a"},{"type":"chart","points":[1,2]},{"type":"text","text":"b"}]}`: {"a", `"chart"`, "b"},
		`{"content":"only text"}`:                         {"only text"},
		`{"content":{"type":"text","text":"one"}}`:        {"one"},
		`{"content":["a",{"type":"text","text":7},null]}`: {"a", "cannot be read here"},
		`{"content":[{"type":"image","mimeType":"image/png","data":"data:image/png;base64,` + picture + `"}]}`: {"a picture"},
		`{"content":[{"type":"image","mimeType":"image/png","data":"` + picture + `"}]}`:                       {"a picture"},
		`{"content":[{"type":"image","mimeType":"image/png","data":"!"}]}`:                                     {"cannot be read here"},
		`{"content":[]}`: {"answered nothing"},
	} {
		var read sdk.CallToolResult
		if err := json.Unmarshal(mendedResult(json.RawMessage(result)), &read); err != nil {
			t.Errorf("%s: %v", result, err)
			continue
		}
		got := answerOf(&read)
		lines := strings.Split(got.Text, "\n")
		if len(lines) != len(want) || got.IsError != strings.Contains(result, "isError") {
			t.Errorf("%s: %+v", result, got)
			continue
		}
		for i := range want {
			if !strings.Contains(lines[i], want[i]) {
				t.Errorf("%s: item %d is %q, want %q", result, i, lines[i], want[i])
			}
		}
	}
	for _, other := range []string{``, `{}`, `{"tools":[]}`, `{"messages":[{"content":{"type":"text","text":"x"}}]}`} {
		if got := mendedResult(json.RawMessage(other)); string(got) != other {
			t.Errorf("%s became %s", other, got)
		}
	}
}

func TestIDThatComesBackAsAStringIsThatOfItsRequest(t *testing.T) {
	for text, want := range map[string]any{"7": int64(7), "task-7": "task-7", "x": "x"} {
		id, err := jsonrpc.MakeID(text)
		if err != nil {
			t.Fatal(err)
		}
		got := mended(&jsonrpc.Response{ID: id, Result: json.RawMessage(`{}`)}).(*jsonrpc.Response)
		if got.ID.Raw() != want {
			t.Errorf("%q became %#v, want %#v", text, got.ID.Raw(), want)
		}
	}
}
