package tui

import (
	"fmt"
	"strings"
	"testing"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/chat"
	symbiov1 "symbio/proto/symbio/v1"
)

func TestOverlayIsSearched(t *testing.T) {
	d := newDesk(t, 40, 12)
	var rows []string
	for i := range 100 {
		rows = append(rows, fmt.Sprintf("row %d", i))
	}
	d.show(chat.Page{Title: "Rows", Text: strings.Join(rows, "\n")})
	for _, c := range []struct {
		keys  []string
		first string
	}{
		{[]string{"/", "'OW 4x", "backspace"}, "row 0"},
		{[]string{"enter"}, "row 4"},
		{[]string{"n"}, "row 40"},
		{[]string{"n"}, "row 41"},
		{[]string{"N", "N", "N"}, "row 49"},
		{[]string{"n"}, "row 4"},
		{[]string{"/", "'99", "enter"}, "row 90"}, // the last page
		{[]string{"/", "'none", "enter"}, "row 90"},
	} {
		d.keys(c.keys...)
		if got := strings.Split(d.frame.view.Content, "\n"); got[1] != c.first {
			t.Errorf("after %q the first row is %q, want %q", c.keys, got[1], c.first)
		}
	}
	if !strings.HasPrefix(d.frame.view.Content, "nothing has none\n") {
		t.Errorf("of a text that is not there: %q", d.frame.view.Content)
	}
	if d.keys("/", "'q", "esc"); d.overlay == nil {
		t.Error("Esc in the search closed the page")
	}
}

func TestSearchInListChoosesRow(t *testing.T) {
	d := newDesk(t, 40, 12)
	d.show(chat.Sessions{{ID: "s1", Title: "one"}, {ID: "s2", Title: "two"}, {ID: "s3", Title: "three"}})
	d.keys("/", "'thr", "enter", "enter")
	if len(d.got) != 1 || d.got[0].Text != "/resume s3" {
		t.Errorf("chosen: %+v", d.got)
	}
}

func TestLongMessageIsShownShort(t *testing.T) {
	d := newDesk(t, 60, 20)
	d.show(chat.Echo("look at this\n" + strings.Repeat("row\n", 200) + "what is wrong?"))
	if got, want := d.printed(), "\n> look at this\n[202 lines; Ctrl-O shows all]\nwhat is wrong?"; got != want {
		t.Errorf("shown %q, want %q", got, want)
	}
	d.keys("ctrl+o")
	if got := d.transcript.full(d.look.st, 60, false); len(got) != 204 {
		t.Errorf("Ctrl-O has %d rows: %q", len(got), got)
	}
	d.overlay = nil
	d.show(chat.Echo("one\ntwo"))
	if got, want := d.printed(), "\n> one\ntwo"; got != want {
		t.Errorf("a short one: %q, want %q", got, want)
	}
}

func TestFormIsFilledFieldByField(t *testing.T) {
	d := newDesk(t, 80, 24)
	form := `{"message":"Which door?","form":{"color":{"type":"string","required":true,"enum":["red","blue"],"description":"of the door"},"doors":{"type":"integer","default":1},"note":{"type":"string"},"sure":{"type":"boolean"}}}`
	d.show(chat.Questions{{Approval: event.Approval{ID: "1", Tool: "question of s", Digest: "d", Args: []byte(form)}}})
	if view := d.frame.view.Content; !strings.Contains(view, "color: string, required, one of red, blue: of the door\n") {
		t.Errorf("the question:\n%s", view)
	}
	for _, c := range []struct{ typed, want string }{
		{"", "1 of 4: color  string, required, one of red, blue: of the door"},
		{"green", `not taken: "green" is none of red, blue`},
		{"red", "2 of 4: doors  integer, default 1"},
		{"some", `not taken: "some" is no integer`},
		{"", "3 of 4: note  string"},
		{"a; b: c", "4 of 4: sure  boolean"},
	} {
		if d.keys("ctrl+u"); d.questions.reasoning {
			d.keys("'"+c.typed, "enter")
		} else {
			d.keys("down", "up", "r")
		}
		if view := d.frame.view.Content; !strings.Contains(view, c.want) {
			t.Errorf("after %q there is no %q:\n%s", c.typed, c.want, view)
		}
	}
	d.keys("enter")
	want := &symbiov1.AnswerRequest{Id: "1", Digest: "d", Allow: true, Reason: `{"color":"red","note":"a; b: c","sure":"true"}`}
	if len(d.got) != 1 || d.got[0].Answer.String() != want.String() {
		t.Errorf("sent %+v, want %v", d.got, want)
	}
}

func TestWindowIsFilledToHundredPercent(t *testing.T) {
	d := newDesk(t, 80, 24)
	d.event("task", "r", `{"name":"a","text":"x"}`)
	d.event("turn", "r", `{"context":1270,"window":1000}`)
	if !strings.Contains(d.frame.view.Content, "100% of 1000") {
		t.Errorf("the status: %s", d.frame.view.Content)
	}
}
