package tui

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"

	"symbio/cmd/symbio/internal/chat"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// input is what the person types: a text of several lines, its history, and a list of completions.
type input struct {
	cfg  config
	area textarea.Model
	// pastes are the texts that placeholders in the input stand for.
	pastes []string
	// history has the messages of this directory, the latest last. at is the one that is shown, counted
	// from the end; 0 = the draft.
	history []string
	at      int
	draft   string
	// popup are the completions of the last word, and chosen is the marked one. replace is the word.
	popup    []completion
	chosen   int
	replace  string
	skills   []string
	files    []string
	walked   time.Time
	recalled bool // the popup is the search through the history
	// lastKey is when a key was pressed last.
	lastKey time.Time
}

// maxInputRows bounds the rows of the input on the screen; it scrolls.
const maxInputRows = 8

// A pasted text of more lines or bytes is folded.
const (
	foldLines = 4
	foldBytes = 600
	// maxPaste bounds a pasted text; larger ones belong into a file.
	maxPaste = 1 << 20
)

func newInput(c config) input {
	a := textarea.New()
	a.ShowLineNumbers = false
	a.CharLimit = maxPaste
	a.DynamicHeight, a.MaxHeight, a.MaxContentHeight = true, maxInputRows, 10_000
	a.SetVirtualCursor(false)
	a.SetPromptFunc(2, func(p textarea.PromptInfo) string {
		if p.LineNumber == 0 {
			return "> "
		}
		return "  "
	})
	a.SetStyles(textarea.Styles{})
	a.KeyMap.InsertNewline = key.NewBinding(key.WithKeys("shift+enter", "alt+enter", "ctrl+j"))
	for _, off := range []*key.Binding{&a.KeyMap.SelectAll, &a.KeyMap.TransposeCharacterBackward, &a.KeyMap.Paste} {
		off.Unbind()
	}
	a.Focus()
	in := input{cfg: c, area: a}
	in.history = readHistory(in.historyFile()) // before the first key
	in.resize(80, 24)
	return in
}

func (in *input) resize(width, height int) {
	in.area.MaxHeight = max(1, min(maxInputRows, height/3))
	in.area.SetWidth(max(8, width-1))
}

func (in *input) clear() {
	in.area.Reset()
	in.pastes, in.at, in.popup, in.recalled = nil, 0, nil, false
}

// key handles a key. submitted is true when the text is complete.
func (in *input) key(k tea.KeyPressMsg) (text string, pictures []*symbiov1.Picture, submitted bool, cmd tea.Cmd) {
	in.lastKey = time.Now()
	name := k.String()
	if len(in.popup) > 0 && in.popupKey(name) {
		return "", nil, false, nil
	}
	switch name {
	case "enter":
		before := in.area.Value()
		if rest, ok := strings.CutSuffix(before, `\`); ok && in.atEnd() {
			in.area.SetValue(rest + "\n")
			return "", nil, false, nil
		}
		text = in.expanded()
		in.clear()
		cmd = in.remember(text)
		text, pictures = in.takePictures(text)
		return text, pictures, true, cmd
	case "ctrl+g":
		return "", nil, false, in.edit()
	case "ctrl+r":
		in.recall()
		return "", nil, false, nil
	case "up", "down":
		if in.browse(name) {
			return "", nil, false, nil
		}
	case "tab":
		return "", nil, false, in.complete()
	}
	searching := in.recalled && len(in.popup) > 0
	in.area, cmd = in.area.Update(k)
	if searching {
		in.recall()
		return "", nil, false, cmd
	}
	return "", nil, false, tea.Batch(cmd, in.complete())
}

// atEnd reports whether the cursor is behind the text.
func (in *input) atEnd() bool {
	value := in.area.Value()
	last := value[strings.LastIndexByte(value, '\n')+1:]
	return in.area.Line() == in.area.LineCount()-1 && in.area.Column() == len([]rune(last))
}

// paste inserts a pasted text. A long one is folded to a placeholder, which is replaced when the
// message is sent.
func (in *input) paste(text string) {
	in.lastKey = time.Now()
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	n := strings.Count(strings.TrimSuffix(text, "\n"), "\n") + 1
	if n <= foldLines && len(text) <= foldBytes {
		in.area.InsertString(text)
		return
	}
	if len(text) > maxPaste {
		text = text[:maxPaste]
	}
	in.pastes = append(in.pastes, text)
	in.area.InsertString(placeholder(len(in.pastes), n))
}

// placeholder returns what stands for the pasted text of that number in the input.
func placeholder(number, lines int) string {
	if number == 1 {
		return fmt.Sprintf("[pasted %d lines]", lines)
	}
	return fmt.Sprintf("[pasted %d lines #%d]", lines, number)
}

// expanded returns the text with the pasted texts in the places of their placeholders.
func (in *input) expanded() string {
	text := in.area.Value()
	for i, p := range in.pastes {
		n := strings.Count(strings.TrimSuffix(p, "\n"), "\n") + 1
		text = strings.Replace(text, placeholder(i+1, n), p, 1)
	}
	return text
}

// editedMsg is the text that came back from the editor, or why there is none.
type editedMsg struct {
	text string
	err  error
}

// edit opens the text in $EDITOR.
func (in *input) edit() tea.Cmd {
	if in.cfg.editor == "" {
		return func() tea.Msg { return editedMsg{err: fmt.Errorf("no editor is set: EDITOR=NAME names one")} }
	}
	f, err := os.CreateTemp("", "symbio-*.md") // for this user alone
	if err == nil {
		_, err = f.WriteString(in.expanded())
	}
	if err != nil {
		return func() tea.Msg { return editedMsg{err: err} }
	}
	name := f.Name()
	f.Close()
	args := append(strings.Fields(in.cfg.editor), name)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout = in.cfg.out // bubbletea's own output is no file, so that the editor would get a pipe
	return tea.ExecProcess(cmd, func(err error) tea.Msg {
		defer os.Remove(name)
		if err != nil {
			return editedMsg{err: fmt.Errorf("%s: %w", in.cfg.editor, err)}
		}
		data, err := os.ReadFile(name)
		return editedMsg{text: strings.TrimSuffix(string(data), "\n"), err: err}
	})
}

// message handles the results of the input's own commands.
func (in *input) message(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case editedMsg:
		if msg.err != nil {
			return func() tea.Msg { return chat.Note{Text: msg.err.Error(), Bad: true} }
		}
		in.clear()
		in.area.SetValue(msg.text)
	case filesMsg:
		in.files, in.walked = msg, time.Now()
		return in.complete()
	default:
		var cmd tea.Cmd
		in.area, cmd = in.area.Update(msg)
		return cmd
	}
	return nil
}

// Drawable drops the characters of a pasted text that turn the direction of the row or are drawn as
// nothing. They take no cell, so the cursor stays right. The joiner of emoji stays.
func Drawable(r rune) rune {
	if visible.Hidden(r) && r != '\u200d' {
		return -1
	}
	return r
}

// view returns the rows of the input and where the cursor is in them.
func (in *input) view() (string, *tea.Cursor) {
	rows := strings.Split(in.area.View(), "\n")
	for i := range rows {
		rows[i] = strings.TrimRight(strings.Map(Drawable, rows[i]), " ")
	}
	return strings.Join(rows, "\n"), in.area.Cursor()
}
