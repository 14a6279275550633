package cli

import (
	"bytes"
	"strings"
	"testing"

	"symbio/cmd/symbio/internal/command"
	symbiov1 "symbio/proto/symbio/v1"
)

func said(progress *symbiov1.Progress, output, result string) *symbiov1.CallEvent {
	switch {
	case progress != nil:
		return &symbiov1.CallEvent{Missed: 2, Event: &symbiov1.CallEvent_Progress{Progress: progress}}
	case output != "":
		return &symbiov1.CallEvent{Event: &symbiov1.CallEvent_Chunk{Chunk: &symbiov1.Chunk{Data: []byte(output), ContentType: "text/plain"}}}
	}
	return &symbiov1.CallEvent{Event: &symbiov1.CallEvent_Reply{Reply: &symbiov1.CallReply{Data: []byte(result), Node: "bb", NodeName: "b"}}}
}

func TestStreamedResultIsPrintedOnce(t *testing.T) {
	half := &symbiov1.Progress{Message: "half\x1b[2J", Done: 1, Total: 2}
	for name, tt := range map[string]struct {
		events   []*symbiov1.CallEvent
		terminal bool
		out, err string
	}{
		"no output":              {[]*symbiov1.CallEvent{said(half, "", ""), said(nil, "", `{"a":1}`)}, false, "{\"a\":1}\n", " 50% half[2J\n"},
		"the output is it":       {[]*symbiov1.CallEvent{said(nil, "Once ", ""), said(nil, "upon.", ""), said(nil, "", "Once upon.")}, false, "Once upon.\n", ""},
		"the output ends in it":  {[]*symbiov1.CallEvent{said(nil, "Hm.\n\nOnce.\n", ""), said(nil, "", `"Once."`)}, false, "Hm.\n\nOnce.\n", ""},
		"the output is other":    {[]*symbiov1.CallEvent{said(nil, "row 1", ""), said(nil, "", `{"rows":1}`)}, false, "row 1\n{\"rows\":1}\n", ""},
		"nothing at the end":     {[]*symbiov1.CallEvent{said(nil, "row 1", ""), said(nil, "", ``)}, false, "row 1\n", ""},
		"escapes to a terminal":  {[]*symbiov1.CallEvent{said(nil, "a\x1b[2Jb\tc\n", ""), said(nil, "", "d")}, true, "a[2Jb\tc\nd\n", ""},
		"a cut character":        {[]*symbiov1.CallEvent{said(nil, "caf\xc3", ""), said(nil, "\xa9 \xe2\x82", ""), said(nil, "\xac", ""), said(nil, "", "d")}, true, "café €\nd\n", ""},
		"a character unfinished": {[]*symbiov1.CallEvent{said(nil, "a\xc3", ""), said(nil, "", "d")}, true, "a\uFFFD\nd\n", ""},
		"a percentage in words":  {[]*symbiov1.CallEvent{said(&symbiov1.Progress{Message: "50% done", Done: 50, Total: 100}, "", ""), said(nil, "", "1")}, false, "1\n", "50% done\n"},
		"no words":               {[]*symbiov1.CallEvent{said(&symbiov1.Progress{Done: 3, Total: 3}, "", ""), said(nil, "", "1")}, false, "1\n", "100%\n"},
		"an event of later days": {[]*symbiov1.CallEvent{{}, said(nil, "", "1")}, false, "1\n", ""},
	} {
		var out, err bytes.Buffer
		s := &streamPrinter{env: &command.Env{Out: &out, Err: &err, OutIsTerminal: tt.terminal}}
		for _, e := range tt.events {
			if err := s.text(e); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if out.String() != tt.out || strings.TrimLeft(err.String(), " ") != strings.TrimLeft(tt.err, " ") {
			t.Errorf("%s: printed %q and %q, want %q and %q", name, &out, &err, tt.out, tt.err)
		}
	}
}

func TestStreamIsLinesOfJSON(t *testing.T) {
	var out bytes.Buffer
	s := &streamPrinter{env: &command.Env{Out: &out}}
	for _, e := range []*symbiov1.CallEvent{
		said(&symbiov1.Progress{Message: "half", Done: 1, Total: 2}, "", ""), said(nil, "a<b\n", ""), said(nil, "\xff\x00", ""), {}, said(nil, "", "3"),
	} {
		if err := s.json(e); err != nil {
			t.Error(err)
		}
	}
	want := `{"type":"progress","message":"half","done":1,"total":2,"missed":2}
{"type":"output","text":"a<b\n","content_type":"text/plain"}
{"type":"output","base64":"/wA=","content_type":"text/plain"}
{"type":"result","result":3,"node":"bb","node_name":"b"}
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", &out, want)
	}
}
