package tui

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"symbio/internal/security/private"
)

// The limits of a history: its messages, the bytes of each, and the bytes of the file, which have room
// for escapes.
const (
	maxHistory      = 500
	maxHistoryEntry = 4 << 10
	maxHistoryFile  = 4 << 20
)

// historyFile returns the file with the history of the working directory. Only its user can read it.
func (in *input) historyFile() string {
	return filepath.Join(in.cfg.history, fmt.Sprintf("%x.json", sha256.Sum256([]byte(in.cfg.dir)))[:32])
}

// readHistory reads a history, the latest message last. An unreadable one is empty: it is no reason not to talk.
func readHistory(file string) (all []string) {
	data, err := private.Read(file, maxHistoryFile)
	if err == nil {
		_ = json.Unmarshal(bytes.TrimSpace(data), &all)
	}
	return all
}

// remember adds a message to the history and its file, which another conversation may have written to
// meanwhile.
func (in *input) remember(text string) tea.Cmd {
	if strings.TrimSpace(text) == "" || len(text) > maxHistoryEntry {
		return nil
	}
	in.history = appendHistory(in.history, text)
	file := in.historyFile()
	return func() tea.Msg {
		data, err := json.Marshal(appendHistory(readHistory(file), text))
		if err == nil {
			_ = private.Replace(file, data)
		}
		return nil
	}
}

// appendHistory returns all with text at the end, once.
func appendHistory(all []string, text string) []string {
	all = slices.DeleteFunc(slices.Clone(all), func(old string) bool { return old == text })
	all = append(all, text)
	return all[max(0, len(all)-maxHistory):]
}

// browse shows an older or newer message, if the cursor is in the first or the last line of the text.
func (in *input) browse(key string) bool {
	step := 1
	if key == "down" {
		step = -1
	}
	info := in.area.LineInfo()
	first := in.area.Line() == 0 && info.RowOffset == 0
	last := in.area.Line() == in.area.LineCount()-1 && info.RowOffset == info.Height-1
	at := in.at + step
	if step > 0 && !first || step < 0 && !last || at < 0 || at > len(in.history) {
		return false
	}
	if in.at == 0 {
		in.draft = in.area.Value()
	}
	in.at = at
	text := in.draft
	if at > 0 {
		text = in.history[len(in.history)-at]
	}
	in.area.SetValue(text)
	if step > 0 {
		in.area.MoveToBegin()
		in.area.CursorEnd()
	}
	return true
}

// recall opens the messages of the history that have the typed text, the latest first.
func (in *input) recall() {
	in.popup, in.chosen, in.recalled, in.replace = nil, 0, true, in.area.Value()
	for _, text := range slices.Backward(in.history) {
		if strings.Contains(strings.ToLower(text), strings.ToLower(in.replace)) {
			in.popup = append(in.popup, completion{text: text})
		}
	}
}
