//go:build unix

package node_test

import (
	"bytes"
	"image"
	"image/png"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/internal/agent/node/control"
	symbiov1 "symbio/proto/symbio/v1"
)

// event waits for the next event of a type.
func (d dialogue) event(kind string) event.Event {
	d.t.Helper()
	for {
		e, err := control.Receive(d.stream.Recv)
		if err != nil {
			d.t.Fatalf("while waiting for %s: %v", kind, err)
		}
		if e.Type == kind {
			return e
		}
	}
}

// settings waits for the next settings, and why they did not change.
func (d dialogue) settings() (s event.Settings, why string) {
	d.t.Helper()
	e := d.event(event.TypeSettings)
	return event.PartOf[event.Settings](e), e.Why
}

func (d dialogue) change(to *symbiov1.ChangeSettings) (s event.Settings, why string) {
	d.t.Helper()
	d.say(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Settings{Settings: to}})
	return d.settings()
}

func (d dialogue) picture(text string, pictures ...*symbiov1.Picture) heard {
	d.t.Helper()
	d.say(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Next{Next: &symbiov1.NextMessage{Text: text, Pictures: pictures}}})
	return d.hears("result")
}

func TestConversationChangesItsSettings(t *testing.T) {
	c := startNode(t)
	d := converse(t, c, &symbiov1.RunRequest{Effort: "low", Mode: "plan"})
	if s, why := d.settings(); s.Model != "scripted:slow" || s.Effort != "low" || s.Mode != "plan" || s.Window == 0 || why != "" {
		t.Errorf("at the start the settings are %+v, %q", s, why)
	}
	if s, why := d.change(&symbiov1.ChangeSettings{Model: "nowhere:x", Mode: "ask"}); s.Model != "scripted:slow" || s.Mode != "plan" || why == "" {
		t.Errorf("after a model that is none the settings are %+v, %q", s, why)
	}
	if s, why := d.change(&symbiov1.ChangeSettings{Effort: "much"}); s.Effort != "low" || !strings.Contains(why, "want low, medium or high") {
		t.Errorf("after an effort that is none the settings are %+v, %q", s, why)
	}
	if s, why := d.change(&symbiov1.ChangeSettings{Mode: "edits", Effort: "high"}); s.Mode != "edits" || s.Effort != "high" || why != "" {
		t.Errorf("after a change the settings are %+v, %q", s, why)
	}
	d.next("one")
	if f := event.PartOf[event.Turn](d.event(event.TypeTurn)); f.Context == 0 || f.Window == 0 {
		t.Errorf("the turn has a context of %d and a window of %d", f.Context, f.Window)
	}
	d.hears("result")
	for _, open := range []*symbiov1.RunRequest{{Mode: "yolo"}, {Effort: "most"}} {
		if _, err := converse(t, c, open).ends(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: ended with %v, want InvalidArgument", open, err)
		}
	}
}

func TestConversationIsClearedAndCompacted(t *testing.T) {
	c := startNode(t)
	d := converse(t, c, &symbiov1.RunRequest{})
	first := d.hears("session")
	d.next("one")
	if r := d.hears("result"); r.Status != "done" {
		t.Fatalf("%+v", r)
	}
	d.say(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Clear{Clear: &symbiov1.Clear{}}})
	if s := d.hears("session"); s.ID == first.ID || s.ID == "" {
		t.Errorf("after clear the session is %+v, before it was %+v", s, first)
	}
	d.say(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Compact{Compact: &symbiov1.Compact{}}})
	if n := d.hears("notice"); !strings.Contains(n.Text, "nothing in the conversation") {
		t.Errorf("the notice is %+v", n)
	}
	d.next("wait")
	d.hears("task")
	d.say(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Clear{Clear: &symbiov1.Clear{}}})
	if n := d.hears("notice"); !strings.Contains(n.Text, "Not cleared: a message is being answered") {
		t.Errorf("the notice is %+v", n)
	}
	d.say(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Compact{Compact: &symbiov1.Compact{}}})
	if n := d.hears("notice"); !strings.Contains(n.Text, "Not compacted: ") {
		t.Errorf("the notice is %+v", n)
	}
	d.interrupt()
	d.hears("result")
}

func TestConversationTakesPictures(t *testing.T) {
	c := startNode(t)
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, 2, 2))); err != nil {
		t.Fatal(err)
	}
	good := &symbiov1.Picture{Type: "image/png", Data: file.Bytes()}
	d := converse(t, c, &symbiov1.RunRequest{Pictures: []*symbiov1.Picture{good}})
	if r := d.hears("result"); r.Status != "done" {
		t.Errorf("a task of a picture alone: %+v", r)
	}
	large := append(bytes.Clone(file.Bytes()), make([]byte, llm.MaxImage)...)
	for name, tt := range map[string]struct {
		pictures []*symbiov1.Picture
		want     string
	}{
		"good":          {[]*symbiov1.Picture{good, good}, ""},
		"no picture":    {[]*symbiov1.Picture{good, {Type: "image/png", Data: []byte("<html>")}}, "picture 2: "},
		"another type":  {[]*symbiov1.Picture{{Type: "image/gif", Data: file.Bytes()}}, "declared as"},
		"empty":         {[]*symbiov1.Picture{{Type: "image/png"}}, "without data"},
		"damaged":       {[]*symbiov1.Picture{{Type: "image/png", Data: file.Bytes()[:12]}}, "cannot be read"},
		"too large":     {[]*symbiov1.Picture{{Type: "image/png", Data: large}}, "at most"},
		"too many":      {make([]*symbiov1.Picture, llm.MaxImages+1), "at most 20"},
		"a long header": {[]*symbiov1.Picture{{Type: strings.Repeat("x", 1<<20), Data: file.Bytes()}}, "declared as"},
	} {
		for i, p := range tt.pictures {
			if p == nil {
				tt.pictures[i] = good
			}
		}
		r := d.picture("look", tt.pictures...)
		if failed := r.Status == "failed"; failed != (tt.want != "") || !strings.Contains(r.Error, tt.want) || len(r.Error) > 1000 {
			t.Errorf("%s: the result is %+v, want %q", name, r, tt.want)
		}
	}
}
