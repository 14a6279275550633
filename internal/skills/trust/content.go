package trust

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"symbio/internal/skills/share"
	"symbio/skills"
)

const (
	// maxText is the longest text that a person is shown of a file, in bytes.
	maxText = 128 << 10
	// maxKept bounds the texts that a record keeps, in bytes of JSON: a record has at most 64 KiB.
	maxKept = 48 << 10
)

// Content is a file of a skill as a person is shown it before trusting the skill.
type Content struct {
	share.File
	// Text is the text of the SKILL.md or a script; "" = it is another file, no text, or too long.
	Text string `json:"text,omitempty"`
	// Script is true for what an agent may run.
	Script bool `json:"script,omitempty"`
}

// Contents reads the files of a skill, the SKILL.md first. more is true if there are more of them. A file that cannot be read
// has a path only.
func Contents(s skills.Skill) (all []Content, more bool, err error) {
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return nil, false, err
	}
	defer root.Close()
	names, more, err := s.Files()
	if err != nil {
		return nil, more, err
	}
	for i, name := range append([]string{filepath.Base(s.Path)}, names...) {
		f, data, err := share.ReadFile(root, name)
		c := Content{File: f, Script: f.Exec || strings.HasPrefix(name, "scripts/")}
		c.Path = name
		if err == nil && (i == 0 || c.Script) && len(data) <= maxText && utf8.Valid(data) && !bytes.ContainsRune(data, 0) {
			c.Text = string(data)
		}
		all = append(all, c)
	}
	return all, more, nil
}

// texts returns the texts of files by their paths, as many as a record keeps.
func texts(files []Content) map[string]string {
	all, left := map[string]string{}, maxKept
	for _, f := range files {
		data, err := json.Marshal(map[string]string{f.Path: f.Text})
		if left -= len(data); err != nil || f.Text == "" || left < 0 {
			left += len(data)
			continue
		}
		all[f.Path] = f.Text
	}
	return all
}

// Previous returns the latest record of the skill, in any version; false if there is none. A fetched skill is the same if it
// has the name and comes from the node.
func (k Keeper) Previous(s skills.Skill, from share.Origin) (latest Record, ok bool) {
	records, _ := k.Book.Records() // State reports those that cannot be read
	for _, r := range records {
		if same := r.Dir == s.Dir || from.Node != "" && r.Node == from.Node && r.Name == s.Name; same && (!ok || !r.Time.Before(latest.Time)) {
			latest, ok = r, true
		}
	}
	return latest, ok
}
