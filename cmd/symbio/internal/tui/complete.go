package tui

import (
	"context"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"symbio/agent/tool/builtin"
)

// completion is an entry of the list below which the person types.
type completion struct {
	// text takes the place of the word, help explains it.
	text, help string
}

// The limits of a list of files: how many, how long listing them may take, and how old a list may be.
const (
	maxFiles   = 20_000
	walkTime   = 2 * time.Second
	filesAge   = 10 * time.Second
	maxMatches = 50
)

// complete opens the completions of the last word, if the cursor is behind it: commands behind a slash
// that begins the text, files behind @, skills behind $.
func (in *input) complete() tea.Cmd {
	in.popup, in.chosen, in.recalled = nil, 0, false
	text := in.area.Value()
	if !in.atEnd() || text == "" {
		return nil
	}
	word := text[strings.LastIndexAny(text, " \n")+1:]
	if word == "" {
		return nil
	}
	in.replace = word
	if word[0] == '@' && time.Since(in.walked) > filesAge {
		in.walked = time.Now()
		return listFiles(in.cfg.dir) // which calls complete again
	}
	switch {
	case word[0] == '/' && word == text:
		for _, c := range in.cfg.commands {
			if strings.HasPrefix(c.Name, word[1:]) {
				in.popup = append(in.popup, completion{"/" + c.Name, strings.TrimSpace(c.Args + "  " + c.Help)})
			}
		}
	case word[0] == '$':
		in.popup = matching(in.skills, word)
	case word[0] == '@':
		in.popup = matching(in.files, word)
	}
	if len(in.popup) == 1 && in.popup[0].text == word {
		in.popup = nil
	}
	return nil
}

// matching returns the names that have what is typed behind the first letter of word, with that letter; a name with
// spaces in quotes. Names with characters that cannot be seen are left out.
func matching(names []string, word string) (found []completion) {
	for _, name := range names {
		if strings.Contains(strings.ToLower(name), strings.ToLower(word[1:])) && len(found) < maxMatches && clean(name) == name {
			if strings.Contains(name, " ") {
				name = `"` + name + `"`
			}
			found = append(found, completion{text: word[:1] + name})
		}
	}
	return found
}

// filesMsg are the files of the working directory.
type filesMsg []string

// popupKey handles a key of the list of completions. It returns false for keys that go to the text.
func (in *input) popupKey(key string) bool {
	switch key {
	case "up", "ctrl+p":
		in.chosen = (in.chosen + len(in.popup) - 1) % len(in.popup)
	case "down", "ctrl+n", "ctrl+r":
		in.chosen = (in.chosen + 1) % len(in.popup)
	case "esc":
		in.popup = nil
	case "tab", "enter":
		text := in.popup[in.chosen].text
		// Enter behind a whole command runs it.
		if key == "enter" && text == in.replace {
			in.popup = nil
			return false
		}
		before := strings.TrimSuffix(in.area.Value(), in.replace)
		if !in.recalled {
			text += " "
		}
		in.area.SetValue(before + text)
		in.popup, in.recalled = nil, false
	default:
		return false
	}
	return true
}

// popupView returns the rows of the completions, at most limit.
func (in *input) popupView(s Styles, columns, limit int) (rows []string) {
	top := max(0, min(in.chosen-limit/2, len(in.popup)-limit))
	for i := top; i < min(len(in.popup), top+limit); i++ {
		c := in.popup[i]
		row := Cut("  "+clean(strings.ReplaceAll(c.text, "\n", " ↵ ")), columns)
		if i == in.chosen {
			row = Paint(s.Selected, row)
		}
		if c.help != "" {
			row = Cut(row+"  "+Paint(s.Dim, clean(c.help)), columns)
		}
		rows = append(rows, row)
	}
	return rows
}

// listFiles lists the files below a directory.
func listFiles(dir string) tea.Cmd {
	return func() tea.Msg { return filesMsg(Files(context.Background(), dir)) }
}

// Files returns the files below a directory that are offered behind @, without those that .gitignore files leave out, nearest
// first. It stays silent on errors, and returns the names found within two seconds.
func Files(ctx context.Context, dir string) (found []string) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	ctx, cancel := context.WithTimeout(ctx, walkTime)
	defer cancel()
	_ = builtin.Walk(ctx, root, func(name string) error { // what was found until then is offered
		if found = append(found, name); len(found) == maxFiles {
			return fs.SkipAll
		}
		return nil
	})
	slices.SortStableFunc(found, func(a, b string) int { return strings.Count(a, "/") - strings.Count(b, "/") })
	return found
}
