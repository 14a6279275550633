package tui

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/chat"
	"symbio/internal/agent/event/eventtest"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/permission"
)

// desk is a model and what it gave to the conversation.
type desk struct {
	*model
	got []chat.Input
}

func newDesk(t testing.TB, columns, rows int) *desk {
	d := &desk{}
	d.model = newModel(config{
		dir: t.TempDir(), history: t.TempDir(), prose: true,
		commands: []chat.Command{{Name: "help", Help: "list"}, {Name: "model", Args: "NAME"}, {Name: "mode"}},
		post:     func(in chat.Input) bool { d.got = append(d.got, in); return true },
	})
	d.show(tea.WindowSizeMsg{Width: columns, Height: rows})
	return d
}

// show gives messages to the model.
func (d *desk) show(all ...tea.Msg) {
	for _, msg := range all {
		d.printer.starting = true // so that the rows stay in the queue
		d.Update(msg)
		d.View()
	}
}

// keys presses keys: names, or texts that are typed letter by letter behind a quote.
func (d *desk) keys(all ...string) {
	for _, name := range all {
		if text, ok := strings.CutPrefix(name, "'"); ok {
			for _, r := range text {
				d.show(press(string(r)))
			}
			continue
		}
		d.show(press(name))
	}
}

// printed returns the rows that go to the scrollback.
func (d *desk) printed() string {
	text := strings.Join(d.printer.queue, "\n")
	d.printer.queue = nil
	return text
}

func (d *desk) event(kind, agent, data string) {
	e := eventtest.New(kind, agent, data)
	e.Time, e.Node = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), "n"
	d.show(e)
}

// hostile are texts that try to move the cursor, to change colors, or to hide something.
var hostile = []string{
	"\x1b[2J\x1b[31mred\x1b]0;title\x07", "\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "\x9b31m\x90q\x9c", "a\rb\bc\vd\fe\x7f\x00",
	"\u202etxt.exe\u202c \u2066x\u2069", "zero\u200b\u200c\u200d\u2060\ufeffwidth", "\u2028line\u2029par\u0085nel", "\U000e0041\U000e0042tags",
	"日本語日本語日本語 👨‍👩‍👧‍👦 \u202e e\u0301\u0301\u0301", strings.Repeat("x", 5000), "\xff\xfe\xc3", "| a | b |\n|---|---|\n| \x1b[1m | " + strings.Repeat("long ", 200) + " |",
	"```go\n\x1b[5mfunc\n", "[\x1b[31mx](javascript:\x1b]52;c;AAAA\x07)", "- [ ] \x1b[7m\n  1. a\n> q", "**" + strings.Repeat("*_`[", 500),
}

// everything shows a text in each place where foreign text is drawn.
func (d *desk) everything(text string) (drawn string) {
	quoted := func(format string, n int) string {
		all := make([]any, n)
		for i := range all {
			all[i] = jsonString(text)
		}
		return fmt.Sprintf(format, all...)
	}
	d.event("task", "r", quoted(`{"name":%s,"text":%s}`, 2))
	d.event("settings", "r", quoted(`{"model":%s,"effort":%s,"mode":%s,"window":100,"why":%s}`, 4))
	d.event("plan", "r", quoted(`{"steps":[{"text":%s,"state":"running"},{"text":%s,"state":%s}]}`, 3))
	d.event("thought", "r", quoted(`{"turn":1,"text":%s}`, 1))
	drawn += d.frame.view.Content
	d.event("text", "r", quoted(`{"turn":1,"text":%s}`, 1))
	d.show(frameMsg{})
	drawn += "\n" + d.frame.view.Content
	d.event("tool_call", "r", quoted(`{"tool":%s,"call":"1","args":{"command":%s}}`, 2))
	d.event("progress", "r", quoted(`{"call":"1","text":%s}`, 1))
	d.event("task", "c", quoted(`{"name":%s,"parent":"r","text":%s}`, 2))
	drawn += "\n" + d.frame.view.Content
	d.event("tool_result", "r", quoted(`{"tool":%s,"call":"1","text":%s,"file":%s,"diff":%s}`, 4))
	d.event("failed", "c", quoted(`{"name":%s,"why":%s}`, 2))
	d.event("warning", "r", quoted(`{"text":%s}`, 1))
	d.event("retry", "r", quoted(`{"next":%s,"why":%s,"wait":1}`, 2))
	d.event("result", "r", quoted(`{"text":%s,"status":"done"}`, 1))
	d.show(chat.Note{Text: text}, chat.Note{Text: text, Bad: true}, chat.Text(text), chat.Echo(text), chat.State{Busy: true, Node: text, Gone: true})
	d.show(chat.Questions{
		{Event: event.Event{Name: text, Why: text}, Approval: event.Approval{ID: "1", For: []string{text}, Tool: text, Args: []byte(`{"command":` + jsonString(text) + `}`), Keepable: permission.Keepable{Rules: []string{text}, Offers: []permission.Offer{{Kind: "words", Text: text, Rules: []string{text}, Covers: []string{text}}}}}},
		{Approval: event.Approval{ID: "2", Diff: text}},
	})
	drawn += "\n" + d.frame.view.Content
	d.show(chat.Questions{{Event: event.Event{Name: text}, Approval: event.Approval{ID: "2", Diff: text}}})
	drawn += "\n" + d.frame.view.Content
	d.show(chat.Questions{}, chat.Skills{text}, filesMsg{text})
	d.input.history = []string{text}
	d.input.popup = []completion{{text: text, help: text}}
	d.show(frameMsg{})
	drawn += "\n" + d.frame.view.Content
	d.input.popup = nil
	member := &symbiov1.LocatedMember{Id: "m", Name: text, NodeName: text, Accepts: []string{"x"}}
	approval := &symbiov1.Approval{Id: "3", NodeName: text, Name: text, Tool: text, Args: []byte(text)}
	for _, open := range []tea.Msg{chat.Page{Title: text, Text: text}, chat.OpenTranscript{}, chat.OpenDiffs{}, chat.Sessions{{ID: text, When: text, Title: text}}, chat.Approvals{approval}, chat.OpenAgents{}, chat.Members{member}} {
		d.show(open)
		drawn += "\n" + d.frame.view.Content
	}
	d.overlay = nil
	d.show(chat.Draft(text), chat.Prompts{{Name: text, Args: text, Help: text}})
	drawn += "\n" + strings.ReplaceAll(d.frame.view.Content, "\u200d", "")
	d.input.clear()
	d.show(tea.PasteMsg{Content: visible.Truncate(text, 200)})
	drawn += "\n" + strings.ReplaceAll(d.frame.view.Content, "\u200d", "")
	d.keys("ctrl+u", "'/")
	drawn += "\n" + strings.ReplaceAll(d.frame.view.Content, "\u200d", "")
	return drawn + "\n" + d.printed()
}

func TestWaitForAModelCountsDownInOneRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, 100, 20)
		d.show(tea.WindowSizeMsg{}, chat.State{Busy: true, Node: "n"})
		d.event("task", "r", `{"name":"general","text":"go"}`)
		sees := func(want string) {
			t.Helper()
			if d.show(frameMsg{}); !strings.Contains(d.frame.view.Content, want+" (type to steer, Ctrl-C stops)") {
				t.Errorf("the status is %q, want %q in it", d.frame.view.Content, want)
			}
		}
		d.event("retry", "r", `{"next":"openai:x","wait":20,"attempt":1,"why":"busy"}`)
		sees("asks openai:x again in 20s")
		time.Sleep(15500 * time.Millisecond)
		sees("asks openai:x again in 5s")
		time.Sleep(5 * time.Second)
		sees("working 20s")
		d.event("retry", "r", `{"next":"openai:x","wait":90,"attempt":2,"why":"busy"}`)
		d.event("text", "c", `{"parent":"r","text":"another agent"}`)
		sees("asks openai:x again in 1m30s")
		d.event("thought", "r", `{"turn":1,"text":"hm"}`)
		sees("thinking 20s")
		if text := d.printed(); strings.Count(text, "calls openai:x in ") != 1 || !strings.Contains(text, "in 20s: busy") {
			t.Errorf("printed is %q, want the first wait alone, with its reason", text)
		}
	})
}

func jsonString(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range strings.ToValidUTF8(text, "?") {
		if r < ' ' || r == '"' || r == '\\' || r == 0x7f {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String() + `"`
}

func TestForeignTextCannotMoveCursorOrHide(t *testing.T) {
	for _, size := range [][2]int{{60, 15}, {80, 24}, {200, 60}, {8, 3}} {
		for _, text := range hostile {
			d := newDesk(t, size[0], size[1])
			for row := range strings.SplitSeq(d.everything(text), "\n") {
				for _, r := range row {
					if !visible.Rune(r) || unicode.IsControl(r) {
						t.Errorf("%.40q at %v: %U is in the row %q", text, size, r, row)
					}
				}
				if w := ansi.StringWidth(row); w > size[0] && size[0] > 20 {
					t.Errorf("%.40q at %v: %d cells: %q", text, size, w, row)
				}
			}
		}
	}
}

func TestViewFitsTerminalWithAllParts(t *testing.T) {
	for _, size := range [][2]int{{60, 15}, {80, 24}, {200, 60}} {
		d := newDesk(t, size[0], size[1])
		d.show(chat.State{Busy: true, Node: "n"})
		var steps []string
		for i := range 30 {
			steps = append(steps, fmt.Sprintf(`{"text":"step %d","state":"pending"}`, i))
			d.event("task", fmt.Sprint("c", i), `{"name":"helper","parent":"r","text":"x"}`)
			d.event("tool_call", "r", fmt.Sprintf(`{"tool":"Bash","call":"%d","args":{"command":"sleep"}}`, i))
		}
		d.event("plan", "r", `{"steps":[`+strings.Join(steps, ",")+`]}`)
		d.event("text", "r", `{"turn":1,"text":`+jsonString(strings.Repeat("a line\n", 100))+`}`)
		d.show(chat.Questions{{Event: event.Event{Name: "general", Why: "No rule."}, Approval: event.Approval{ID: "1", Tool: "Bash", Args: []byte(`{"command":` + jsonString(strings.Repeat("echo\n", 100)) + `}`), Keepable: permission.Keepable{Rules: []string{"Bash(x)"}}}}}, frameMsg{})
		rows := strings.Split(d.frame.view.Content, "\n")
		if len(rows) > size[1] {
			t.Errorf("at %v the view has %d rows", size, len(rows))
		}
		for _, want := range []string{"general wants to use Bash", "y  yes, once", "a  always: keep Bash(x)", "n  no", "No rule.", "\n>\n", "PgUp and PgDn"} {
			if !strings.Contains(d.frame.view.Content, want) {
				t.Errorf("at %v %q is missing in\n%s", size, want, d.frame.view.Content)
			}
		}
	}
}

func TestRequestOfServerForModelHasWordsOfItsOwn(t *testing.T) {
	d := newDesk(t, 80, 24)
	d.show(chat.Questions{
		{Event: event.Event{Name: "general"}, Approval: event.Approval{ID: "1", Tool: "mcp_sampling__files", Args: []byte(`{"messages":["user: how?"]}`)}},
		{Event: event.Event{Name: "worker"}, Approval: event.Approval{ID: "2", For: []string{"general"}, Tool: "mcp_sampling__notes\x1b"}},
	}, frameMsg{})
	for _, want := range []string{"The MCP server files asks the model of general  (1 of 2)\n", `"user: how?"`, `then: The MCP server notes\x1b asks the model of worker <- general`} {
		if !strings.Contains(d.frame.view.Content, want) {
			t.Errorf("%q is missing in\n%s", want, d.frame.view.Content)
		}
	}
	d.show(chat.Approvals{{Name: "general", Tool: "mcp_sampling__files"}}, frameMsg{})
	if want := "The MCP server files asks the model of general"; !strings.Contains(d.frame.view.Content, want) {
		t.Errorf("the list lacks it:\n%s", d.frame.view.Content)
	}
}

func TestQuestionKeys(t *testing.T) {
	q := chat.Questions{{Event: event.Event{Name: "general"}, Approval: event.Approval{ID: "7", Digest: "d", Tool: "Bash", Args: []byte(`{"command":"ls"}`), Keepable: permission.Keepable{Rules: []string{"Bash(ls)"}}}}}
	for keys, want := range map[string]*symbiov1.AnswerRequest{
		"y":                       {Id: "7", Digest: "d", Allow: true},
		"a":                       {Id: "7", Digest: "d", Allow: true, Lasting: true},
		"s":                       {Id: "7", Digest: "d", Allow: true, Always: true},
		"n":                       {Id: "7", Digest: "d"},
		"down down down enter":    {Id: "7", Digest: "d"},
		"enter":                   {Id: "7", Digest: "d", Allow: true},
		"r 'too late enter":       {Id: "7", Digest: "d", Reason: "too late"},
		"r 'oops esc x n":         {Id: "7", Digest: "d"},
		"up enter 'because enter": {Id: "7", Digest: "d", Reason: "because"},
	} {
		d := newDesk(t, 80, 24)
		d.show(q)
		keys = strings.ReplaceAll(keys, "'too late", "'too_late")
		for _, key := range strings.Fields(keys) {
			d.keys(strings.ReplaceAll(key, "_", " "))
		}
		if len(d.got) != 1 || d.got[0].Answer.String() != want.String() {
			t.Errorf("%s: %v, want %v", keys, d.got, want)
		}
	}
}

// What a person types while a question opens stays a text, which Enter sends; an arrow turns to the question.
func TestTypedWordDoesNotAnswerQuestion(t *testing.T) {
	d := newDesk(t, 80, 24)
	d.keys("'maybe")
	d.show(chat.Questions{{Event: event.Event{Name: "general"}, Approval: event.Approval{ID: "7", Tool: "Bash"}}})
	d.keys("'any", "enter")
	if len(d.got) != 1 || d.got[0].Text != "maybeany" || d.got[0].Answer != nil {
		t.Fatalf("got %+v, want the text alone", d.got)
	}
	d.keys("'no way", "down", "down", "enter")
	if len(d.got) != 2 || d.got[1].Answer == nil || d.got[1].Answer.GetAllow() || d.input.area.Value() != "no way" {
		t.Errorf("got %+v, the input is %q; want a no, and the draft kept", d.got, d.input.area.Value())
	}
}

func TestCallOfQuestionScrolls(t *testing.T) {
	var command []string
	for n := range 60 {
		command = append(command, fmt.Sprintf("echo %d", n))
	}
	args, err := json.Marshal(map[string]string{"command": strings.Join(command, "\n")})
	if err != nil {
		t.Fatal(err)
	}
	d := newDesk(t, 80, 24)
	d.show(chat.Questions{{Event: event.Event{Name: "general"}, Approval: event.Approval{ID: "7", Tool: "Bash", Args: args, Keepable: permission.Keepable{Rules: []string{"Bash(x)"}}}}})
	if !strings.Contains(d.frame.view.Content, "echo 0\n") && !strings.Contains(d.frame.view.Content, "echo 0 ") || !strings.Contains(d.frame.view.Content, "of 60; PgUp and PgDn") {
		t.Errorf("at first:\n%s", d.frame.view.Content)
	}
	for range 60 {
		d.keys("pgdown")
	}
	if !strings.Contains(d.frame.view.Content, "echo 59") || strings.Contains(d.frame.view.Content, "echo 0 ") || !strings.Contains(d.frame.view.Content, "yes, once") {
		t.Errorf("at the end:\n%s", d.frame.view.Content)
	}
	d.keys("enter")
	if len(d.got) != 1 || !d.got[0].Answer.GetAllow() {
		t.Errorf("got %+v, want the marked answer", d.got)
	}
}

func TestInputOfSeveralLines(t *testing.T) {
	for want, keys := range map[string][]string{
		"hello":         {"'hello"},
		"a\nb":          {`'a\`, "enter", "'b"},
		"a\n\nb":        {"'a", "shift+enter", "alt+enter", "'b"},
		"日語本":           {"'日本", "left", "'語"},
		"one ":          {"'one two", "ctrl+w"},
		"/etc/hosts is": {"'/etc/hosts is"},
	} {
		d := newDesk(t, 80, 24)
		d.keys(append(keys, "enter")...)
		if len(d.got) != 1 || d.got[0].Text != want {
			t.Errorf("%q: sent %+v, want %q", keys, d.got, want)
		}
	}
}

func TestPasteIsFoldedAndSentWhole(t *testing.T) {
	d := newDesk(t, 80, 24)
	text := strings.Repeat("a long line of a file\n", 120)
	d.keys("'look: ")
	d.show(tea.PasteMsg{Content: strings.ReplaceAll(text, "\n", "\r\n")})
	if !strings.Contains(d.frame.view.Content, "> look: [pasted 120 lines]") {
		t.Errorf("shown:\n%s", d.frame.view.Content)
	}
	d.keys("enter")
	if len(d.got) != 1 || d.got[0].Text != "look: "+text {
		t.Errorf("sent %d inputs", len(d.got))
	}
}

func TestViewStaysWhileRowsArePrinted(t *testing.T) {
	m := newDesk(t, 60, 15).model
	m.Update(startedMsg{})
	m.printer.print("row")
	m.Update(chat.State{})
	before := m.View().Content // with it was counted how many rows fit
	m.Update(chat.Questions{{Approval: event.Approval{ID: "1", Tool: "Bash", Args: []byte(`{"command":"ls"}`)}}})
	if now := m.View().Content; now != before {
		t.Errorf("the view changed to\n%s\nfrom\n%s", now, before)
	}
	m.Update(printedMsg{})
	if now := m.View().Content; !strings.Contains(now, "wants to use Bash") {
		t.Errorf("after the print the view is\n%s", now)
	}
}

func TestPrintFitsBesideEachFrameThatMayBeDrawn(t *testing.T) {
	step := func(m *model, msg tea.Msg) (left int) { // as bubbletea does
		m.Update(msg)
		m.View()
		m.printer.printing = false
		return len(m.printer.queue)
	}
	tests := []struct {
		name        string
		open, close tea.Msg
		left        []int // at once, and after each of two frames
	}{
		{"question", chat.Questions{{Approval: event.Approval{ID: "1", Tool: "Bash", Args: []byte(`{"command":"ls"}`)}}}, chat.Questions{}, []int{10, 0, 0}},
		{"overlay", chat.Page{Title: "page", Text: "text"}, press("q"), []int{20, 20, 3}},
		{"nothing", chat.Note{Text: "a"}, chat.Note{Text: "b"}, []int{3, 0, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newDesk(t, 80, 20).model
			step(m, startedMsg{})
			step(m, tt.open)
			step(m, frameMsg{})
			step(m, tt.close)
			m.printer.print(strings.Repeat("row\n", 19) + "row")
			got := []int{step(m, chat.State{}), step(m, frameMsg{}), step(m, frameMsg{})}
			if !slices.Equal(got, tt.left) {
				t.Errorf("rows that wait: %d, want %d", got, tt.left)
			}
		})
	}
}

func TestHistoryLastsAndIsSearched(t *testing.T) {
	d := newDesk(t, 80, 24)
	for _, text := range []string{"first one", "second", "first two"} {
		d.input.area.SetValue(text)
		_, _, _, cmd := d.input.key(press("enter"))
		cmd()
	}
	again := &desk{model: newModel(d.cfg)}
	again.keys("'draft", "up", "up")
	if got := again.input.area.Value(); got != "second" {
		t.Errorf("two up is %q", got)
	}
	again.keys("down", "down")
	if got := again.input.area.Value(); got != "draft" {
		t.Errorf("back is %q", got)
	}
	again.keys("ctrl+u", "'first", "ctrl+r", "ctrl+r", "enter")
	if got := again.input.area.Value(); got != "first one" {
		t.Errorf("found %q", got)
	}
	info, err := os.Stat(again.input.historyFile())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of the history: %v, %v", info, err)
	}
}

func TestCompletionOfCommandsFilesAndSkills(t *testing.T) {
	d := newDesk(t, 80, 24)
	for name, text := range map[string]string{".gitignore": "*.log\nbuild/\n", "main.go": "", "debug.log": "", "build/out.go": "", "sub/other.go": "", "sub/with space.go": ""} {
		file := filepath.Join(d.cfg.dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files := listFiles(d.cfg.dir)().(filesMsg)
	if got := strings.Join(files, " "); got != ".gitignore main.go sub/other.go sub/with space.go" {
		t.Errorf("the files are %q", got)
	}
	d.show(chat.Skills{"changelog", "review"}, files)
	for want, keys := range map[string][]string{
		"/model ":               {"'/mod", "tab"},
		"/mode ":                {"'/mod", "down", "tab"},
		"see @main.go ":         {"'see @MAI", "enter"},
		"@sub/other.go x":       {"'@oth", "tab", "x"},
		"$review ":              {"'$vi", "enter"},
		`@"sub/with space.go" `: {"'@wi", "enter"},
		"a/mo":                  {"'a/mo", "tab"},
	} {
		d.input.clear()
		d.keys(keys...)
		if got := d.input.area.Value(); got != want {
			t.Errorf("%q is %q, want %q", keys, got, want)
		}
	}
}

func TestPictureIsSentWithItsMessage(t *testing.T) {
	d := newDesk(t, 80, 24)
	file := filepath.Join(d.cfg.dir, "a b.png")
	if err := os.WriteFile(file, []byte("\x89PNG\r\n\x1a\n0000"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.show(tea.PasteMsg{Content: strings.ReplaceAll(file, " ", `\ `) + " what?"})
	d.keys("enter")
	if len(d.got) != 1 || d.got[0].Text != "[picture a b.png] what?" || len(d.got[0].Pictures) != 1 || d.got[0].Pictures[0].GetType() != "image/png" {
		t.Errorf("sent %+v", d.got)
	}
}

func TestMissingEditorIsSaid(t *testing.T) {
	d := newDesk(t, 80, 24)
	d.keys("'draft")
	_, _, _, cmd := d.input.key(press("ctrl+g"))
	d.show(d.input.message(cmd())())
	if got := d.printed(); !strings.Contains(got, "EDITOR=NAME") || d.input.area.Value() != "draft" {
		t.Errorf("printed %q, the input is %q", got, d.input.area.Value())
	}
}

func TestModeChangesByShiftTab(t *testing.T) {
	d := newDesk(t, 80, 24)
	for _, want := range []string{"edits", "plan", "ask"} {
		d.keys("shift+tab")
		got := d.got[len(d.got)-1].Settings.GetMode()
		if got != want {
			t.Errorf("asked for %q, want %q", got, want)
		}
		d.event("settings", "r", `{"mode":"`+got+`","model":"m","window":1000}`)
	}
	d.event("task", "r", `{}`)
	d.event("turn", "r", `{"turn":1,"context":250,"window":1000}`)
	if !strings.Contains(d.frame.view.Content, "25% of 1000 · m") {
		t.Errorf("the status is %s", d.frame.view.Content)
	}
}

func TestLinksOfTerminalLeadWhereTheyShow(t *testing.T) {
	d := newDesk(t, 80, 24)
	for target, linked := range map[string]bool{
		"https://example.com/a?b=c#d": true, "http://example.com": true,
		"javascript:alert(1)": false, "file:///etc/passwd": false, "https://ex\u0430mple.com": false, "//example.com": false, "/docs": false, "https://": false,
	} {
		for _, links := range []bool{true, false} {
			d.look.links = links
			got := d.look.markdown("see [the docs](" + target + ") now")
			if want := "\x1b]8;;" + target + "\a"; strings.Contains(got, want) != (linked && links) || strings.Count(got, "\x1b]8") > 2 {
				t.Errorf("links %t: %s is %q", links, target, got)
			}
			if text := ansi.Strip(got); text != "see the docs ("+target+") now\n" {
				t.Errorf("%q is shown as %q", target, text)
			}
		}
	}
	for env, want := range map[string]bool{"": false, "TERM=xterm-256color": false, "TERM=xterm-kitty": true, "TERM=xterm-kitty TMUX=1": false, "VTE_VERSION=7200": true, "VTE_VERSION=4000": false, "WT_SESSION=x": true, "TERM_PROGRAM=WezTerm": true, "TERM_PROGRAM=WezTerm STY=1": false} {
		got := ShowsLinks(func(name string) string {
			for _, v := range strings.Fields(env) {
				if value, ok := strings.CutPrefix(v, name+"="); ok {
					return value
				}
			}
			return ""
		})
		if got != want {
			t.Errorf("%q: got %t", env, got)
		}
	}
}

func TestQuickShiftTabsCountEach(t *testing.T) {
	d := newDesk(t, 80, 24)
	d.keys("shift+tab", "shift+tab")
	d.event("settings", "r", `{"mode":"edits"}`)
	d.keys("shift+tab")
	d.event("settings", "r", `{"mode":"edits","why":"no"}`)
	d.keys("shift+tab")
	var got []string
	for _, in := range d.got {
		got = append(got, in.Settings.GetMode())
	}
	if want := "edits plan ask plan"; strings.Join(got, " ") != want {
		t.Errorf("asked for %v, want %s", got, want)
	}
}

func TestAgentIsSpokenToThroughTree(t *testing.T) {
	d := newDesk(t, 80, 24)
	d.event("task", "r", `{"name":"general","text":"x"}`)
	d.event("task", "c", `{"name":"helper","parent":"r","text":"look"}`)
	d.keys("ctrl+t")
	d.show(chat.Members{{Id: "far", Name: "worker", NodeName: "b", Accepts: []string{"x"}, Available: true}})
	if !d.frame.view.AltScreen || !strings.Contains(d.frame.view.Content, "helper on n") || !strings.Contains(d.frame.view.Content, "worker on b") {
		t.Fatalf("the tree is\n%s", d.frame.view.Content)
	}
	d.keys("down", "down", "enter", "'stop that", "enter", "esc", "'and you", "enter")
	got := d.got[len(d.got)-2:]
	if got[0].Steer != "far" || got[0].Text != "stop that" || got[1].Steer != "" {
		t.Errorf("sent %+v", got)
	}
}

// When an overlay closes, the terminal has the view again that was drawn last before it. A lower one would leave rows of that.
func TestViewKeepsItsRowsWhileOverlayIsOpen(t *testing.T) {
	d := newDesk(t, 80, 24)
	d.keys("'/mod")
	drawn := lines(d.frame.view.Content)
	d.keys("esc")
	d.show(chat.Page{Title: "a page", Text: "text"}, frameMsg{}, frameMsg{}, frameMsg{})
	d.keys("q")
	if got := lines(d.frame.view.Content); got < drawn {
		t.Errorf("after the page the view has %d rows, but %d are drawn", got, drawn)
	}
	d.show(frameMsg{}, frameMsg{}, frameMsg{})
	if got := lines(d.frame.view.Content); got >= drawn {
		t.Errorf("the view keeps %d rows", got)
	}
}

func TestAgentIsStoppedInTreeAfterQuestion(t *testing.T) {
	d := newDesk(t, 80, 24)
	d.event("task", "r", `{"name":"general","text":"x"}`)
	d.event("task", "c", `{"name":"helper","parent":"r","text":"look"}`)
	d.keys("ctrl+t")
	asked := len(d.got)
	d.keys("x", "x", "down", "x", "up", "down", "x")
	if len(d.got) != asked || !strings.Contains(d.frame.view.Content, "x again stops helper and its sub-agents") {
		t.Fatalf("sent %+v before the second x; the screen is\n%s", d.got[asked:], d.frame.view.Content)
	}
	d.keys("x", "x")
	if got := d.got[asked:]; len(got) != 1 || got[0].Stop != "c" {
		t.Errorf("sent %+v", got)
	}
}

func TestEditIsShownAsDiff(t *testing.T) {
	d := newDesk(t, 80, 24)
	d.event("tool_call", "r", `{"tool":"Edit","call":"1","args":{"file_path":"a.txt"}}`)
	d.event("tool_result", "r", `{"tool":"Edit","call":"1","text":"ok","file":"a.txt","diff":"--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-one\n+two\n"}`)
	want := "  ✓ Edit a.txt  ok  0s\n    --- a.txt\n    +++ a.txt\n    @@ -1 +1 @@\n    -one\n    +two"
	if got := d.printed(); got != want {
		t.Errorf("printed\n%s\nwant\n%s", got, want)
	}
	d.show(chat.OpenDiffs{})
	if !strings.Contains(d.frame.view.Content, "+two") {
		t.Errorf("the diffs are\n%s", d.frame.view.Content)
	}
}

func TestStreamIsTheSameInAnyPieces(t *testing.T) {
	const text = "# Head\n\nA paragraph\nof two lines.\n```go\nx := 1\n\ny := 2\n```\n- one\n\n  more of one\n- two\n\nAfter.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n1. x\n2. y\n"
	all := func(pieces []string) (blocks []string) {
		var s stream
		for _, p := range pieces {
			blocks = append(blocks, s.add(p)...)
		}
		if rest := s.flush(); rest != "" {
			blocks = append(blocks, rest)
		}
		return blocks
	}
	want := all([]string{text})
	if len(want) != 7 {
		t.Fatalf("%d blocks: %q", len(want), want)
	}
	rapid.Check(t, func(t *rapid.T) {
		var pieces []string
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		if got := all(pieces); strings.Join(got, "\x00") != strings.Join(want, "\x00") {
			t.Errorf("%q is %q", pieces, got)
		}
	})
}

func TestMarkdown(t *testing.T) {
	d := newDesk(t, 40, 24)
	for text, want := range map[string]string{
		"# A *b* `c`":                               "A b c\n",
		"**a** __b__ ~~c~~ _d":                      "a b c _d\n",
		"snake_case_name 2*3*":                      "snake_case_name 23\n",
		"[a](http://x/y) z":                         "a (http://x/y) z\n",
		"- one two three four five six seven eight": "• one two three four five six seven\n  eight\n",
		"10. x\n  - [x] y":                          "10. x\n  • ☑ y\n",
		"> said\n---":                               "│ said\n───────────────────────────────────────\n",
		"```go\nfunc f() {}\n```":                   "  func f() {}\n",
		"|a|b|\n|-|-:|\n|long cell|1|\n|x|22|":      "a         │  b\n──────────┼───\nlong cell │  1\nx         │ 22\n",
		`\*not\*`:                                   "*not*\n",
	} {
		if got := d.look.markdown(text); got != strings.Replace(want, "──────────┼───", "──────────┼───"[3:], 1) && got != want {
			t.Errorf("%q is\n%q, want\n%q", text, got, want)
		}
	}
}

func FuzzMarkdown(f *testing.F) {
	for _, text := range hostile {
		f.Add(text, 40)
	}
	f.Add("\t\t\t0", 0)
	f.Fuzz(func(t *testing.T, text string, columns int) {
		d := newDesk(t, 12+max(0, columns)%200, 24)
		for row := range strings.SplitSeq(d.look.markdown(text), "\n") {
			if ansi.StringWidth(row) > d.look.columns+1 || strings.ContainsFunc(row, unicode.IsControl) {
				t.Errorf("in %d cells the row %q", d.look.columns+1, row)
			}
		}
	})
}

// BenchmarkKeystroke measures a key in a conversation of 2,000 lines, up to the view.
func BenchmarkKeystroke(b *testing.B) {
	d := newDesk(b, 80, 24)
	for i := range 2000 {
		d.event("text", "r", fmt.Sprintf(`{"turn":1,"text":"line %d of the answer\n\n"}`, i))
		d.printed()
	}
	for b.Loop() {
		d.show(press("x"))
		if d.input.area.Length() > 200 {
			d.input.clear()
		}
	}
}

// BenchmarkToken measures one token of an answer that streams in, with its part of the views: 1,000 tokens
// a second share 20 of them.
func BenchmarkToken(b *testing.B) {
	d := newDesk(b, 80, 24)
	d.show(chat.State{Busy: true})
	i := 0
	for b.Loop() {
		i++
		text := "word "
		if i%15 == 0 {
			text = "word.\n"
		}
		if i%150 == 0 {
			text = "\n\n"
		}
		d.event("text", "r", `{"turn":1,"text":`+jsonString(text)+`}`)
		if i%50 == 0 {
			d.show(frameMsg{})
			d.printed()
		}
	}
}

// offering is a question with what an answer can allow with it.
var offering = chat.Question{Event: event.Event{Name: "general", Why: "No rule matches `go test ./...`."}, Approval: event.Approval{ID: "7", Digest: "d", Tool: "Bash", Args: []byte(`{"command":"go test ./..."}`), Keepable: permission.Keepable{Rules: []string{"exactly this call"}, Offers: []permission.Offer{
	{Kind: permission.OfferChanges, Text: "changes of files below /w", Rules: []string{"Write(./*)", "Bash(box:work)"}, Covers: []string{"Edit a.go", "Bash make"}},
	{Kind: permission.OfferWords, Text: "commands that begin with go test", Rules: []string{"Bash(go test:*)"}},
	{Kind: permission.OfferHost, Text: "requests to go.dev", Rules: []string{"WebFetch(domain:go.dev)"}},
}}}}

func TestQuestionTakesOffers(t *testing.T) {
	for keys, want := range map[string]*symbiov1.AnswerRequest{
		"s": {Offer: 1}, "S": {Offer: 1, Lasting: true}, "p": {Offer: 2}, "P": {Offer: 2, Lasting: true}, "f": {Offer: 3}, "F": {Offer: 3, Lasting: true},
		"a": {Lasting: true}, "down enter": {Offer: 1}, "down down enter": {Offer: 1, Lasting: true},
	} {
		d := newDesk(t, 80, 24)
		d.show(chat.Questions{offering})
		d.keys(strings.Fields(keys)...)
		if want.Id, want.Digest, want.Allow = "7", "d", true; len(d.got) != 1 || d.got[0].Answer.String() != want.String() {
			t.Errorf("%s: %v, want %v", keys, d.got, want)
		}
	}
}

// The rules of an offer and what they cover are shown where there is room, its choices always.
func TestQuestionShowsWhatOffersAllow(t *testing.T) {
	d := newDesk(t, 80, 30)
	d.show(chat.Questions{offering})
	for _, want := range []string{"  s  for the session: changes of files below /w\n", "allows Write(./*), Bash(box:work)", "also covers Edit a.go; Bash make", "  S  the same from now on", "allows Bash(go test:*)", "  a  always: keep exactly"} {
		if !strings.Contains(squeeze(d.frame.view.Content), want) {
			t.Errorf("%q is missing in\n%s", want, d.frame.view.Content)
		}
	}
	d = newDesk(t, 80, 16)
	d.show(chat.Questions{offering})
	for _, want := range []string{"s  for the session: changes of files below /w", "p  for the session: commands that begin with go test", "r  no, with"} {
		if !strings.Contains(d.frame.view.Content, want) {
			t.Errorf("with few rows %q is missing in\n%s", want, d.frame.view.Content)
		}
	}
}

// squeeze removes the blanks at the ends of rows.
func squeeze(text string) string {
	rows := strings.Split(text, "\n")
	for i := range rows {
		rows[i] = strings.TrimRight(rows[i], " ")
	}
	return strings.Join(rows, "\n")
}
