package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/agent/content"
)

// withArtifacts lets a command take what node a gives. It returns the directory of the files of calls.
func withArtifacts(t *testing.T, c *Command, given ...string) (temp string) {
	t.Helper()
	kept := t.TempDir()
	for _, text := range given {
		if err := os.WriteFile(filepath.Join(kept, content.Sum([]byte(text)).String()), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.runner.cfg.Artifacts = keptFiles(kept)
	return c.runner.cfg.Temp
}

// keptFiles are a directory with what node a may give and get.
type keptFiles string

func (dir keptFiles) Open(_ context.Context, from community.NodeID, h content.Hash) (io.ReadSeekCloser, error) {
	if from != "a" {
		return nil, fs.ErrNotExist
	}
	return os.Open(filepath.Join(string(dir), h.String()))
}

func (dir keptFiles) Keep(to community.NodeID, r io.Reader) (h content.Hash, err error) {
	text, err := io.ReadAll(r)
	if h = content.Sum(text); err == nil && to == "a" {
		err = os.WriteFile(filepath.Join(string(dir), h.String()), text, 0o600)
	}
	return h, err
}

func nameOf(text string) string { return tool.ArtifactPrefix + content.Sum([]byte(text)).String() }

func TestCommandReadsArtifactsAsFiles(t *testing.T) {
	c := boxed(t, sh(t, `x=$(cat); f=$(printf %s "$x" | cut -d'"' -f2); (echo evil >"$f") 2>/dev/null; (echo evil >"$f.new") 2>/dev/null
printf '["%s", "%s", %s]' "$(cat "$f")" "$(ls "${f%/*}" | wc -l | tr -d ' ')" "$x"`))
	temp := withArtifacts(t, c, "one", "two")
	one, two := nameOf("one"), nameOf("two")
	input := fmt.Sprintf(`["%s", {"%s" : "%s"}, "see %[1]s", "\"%[1]s", "%[1]s\\", "artifact:../../etc/passwd", "%[1]s", 12345678901234567890]`, one, two, two)
	got, err := c.Answer(t.Context(), []byte(input), "a")
	if err != nil {
		t.Fatal(err)
	}
	var answer [3]any
	if err := json.Unmarshal(got, &answer); err != nil {
		t.Fatal(err)
	}
	args := answer[2].([]any)
	path, _ := args[0].(string)
	second, _ := args[1].(map[string]any)[two].(string)
	if answer[0] != "one" || answer[1] != "3" || !filepath.IsAbs(path) || filepath.Dir(second) != filepath.Dir(path) || args[6] != path {
		t.Errorf("the command read %v of %v files at %q and %q, want one, 2 files and a directory", answer[0], answer[1], path, second)
	}
	if fmt.Sprintf("%q", args[2:6]) != fmt.Sprintf("%q", []any{"see " + one, `"` + one, one + `\`, "artifact:../../etc/passwd"}) || !strings.Contains(string(got), "12345678901234567890") {
		t.Errorf("other values became %q", args)
	}
	if left, err := filepath.Glob(filepath.Join(temp, "call-*")); err != nil || len(left) > 0 {
		t.Errorf("after the call there are %q, %v", left, err)
	}
}

func TestCommandDoesNotRunWithoutItsArtifacts(t *testing.T) {
	many := make([]string, maxFiles+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	names := func(texts []string) string {
		for i := range texts {
			texts[i] = nameOf(texts[i])
		}
		data, _ := json.Marshal(texts)
		return string(data)
	}
	for name, test := range map[string]struct {
		from  community.NodeID
		input string
		words string
	}{
		"never given":           {"a", names([]string{"0", "another"}), "could not be fetched from the calling node"},
		"given by another node": {"b", names([]string{"0"}), "could not be fetched from the calling node"},
		"too many":              {"a", names(append([]string{}, many...)), "more than 8 artifacts in a call"},
	} {
		t.Run(name, func(t *testing.T) {
			c := boxed(t, sh(t, `echo x >ran; echo 1`))
			temp := withArtifacts(t, c, many...)
			_, err := c.Answer(t.Context(), []byte(test.input), test.from)
			if said := community.Explanation(err); !errors.Is(err, community.ErrInvalid) || !strings.Contains(said, test.words) || strings.Contains(said, temp) {
				t.Errorf("error = %v, told to the caller %q; want %q", err, said, test.words)
			}
			if _, err := os.Stat(filepath.Join(c.runner.cfg.Dir, "ran")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the command ran: %v", err)
			}
			if left, err := filepath.Glob(filepath.Join(temp, "call-*")); err != nil || len(left) > 0 {
				t.Errorf("after the call there are %q, %v", left, err)
			}
		})
	}
}

func TestCommandGivesFilesAsArtifacts(t *testing.T) {
	for name, test := range map[string]struct {
		script, want, words string
	}{
		"one of two":       {`printf %s one >"$SYMBIO_ARTIFACTS/a.txt"; echo x >"$SYMBIO_ARTIFACTS/b"; printf '{"%s/a.txt":["%s/a.txt", "see %s/a.txt", "%s", {"f": "%s/a.txt"}]}' "$d" "$d" "$d" "$d" "$d"`, `{"DIR/a.txt":["ONE", "see DIR/a.txt", "DIR", {"f": "ONE"}]}`, ""},
		"of a directory":   {`mkdir "$d/sub"; printf %s one >"$d/sub/a"; echo "\"$d/sub/a\""`, `"ONE"`, ""},
		"none":             {`echo '"artifact:x"'`, `"artifact:x"`, ""},
		"absent":           {`echo x >"$d/b"; echo "\"$d/a\""`, "", "could not be kept"},
		"link out":         {`ln -s /etc/passwd "$d/a"; echo "\"$d/a\""`, "", "could not be kept"},
		"path out":         {`echo x >"$d/b"; echo "\"$d/../made/../\""`, "", "could not be kept"},
		"pipe":             {`mkfifo "$d/a"; echo "\"$d/a\""`, "", "it must be a regular one"},
		"directory":        {`mkdir "$d/a"; echo "\"$d/a\""`, "", "it must be a regular one"},
		"too many":         {`printf '['; for i in 1 2 3 4 5 6 7 8 9; do echo $i >"$d/$i"; printf '"%s/%s", ' "$d" "$i"; done; printf '1]'`, "", "one of 8"},
		"failed all alike": {`echo x >"$d/a"; echo "\"$d/a\""; exit 3`, "", "exit status 3"},
	} {
		t.Run(name, func(t *testing.T) {
			c := boxed(t, sh(t, `d=$SYMBIO_ARTIFACTS; `+test.script))
			temp := withArtifacts(t, c)
			got, err := c.Answer(t.Context(), []byte("null"), "a")
			if said := community.Explanation(err); test.words != "" && (!errors.Is(err, community.ErrAgentFailed) || !strings.Contains(said, test.words) || strings.Contains(said, temp)) {
				t.Errorf("error = %v, told to the caller %q; want %q", err, said, test.words)
			}
			answer := strings.ReplaceAll(string(got), nameOf("one"), "ONE")
			if answer = regexp.MustCompile(`/[^" ]*/call-[0-9]+/made`).ReplaceAllString(answer, "DIR"); answer != test.want || test.words == "" && err != nil {
				t.Errorf("the answer is %s, %v; want %s", got, err, test.want)
			}
			if kept, err := (c.runner.cfg.Artifacts).Open(t.Context(), "a", content.Sum([]byte("one"))); strings.Contains(test.want, "ONE") {
				if err != nil {
					t.Fatal(err)
				}
				defer kept.Close()
			}
			if left, err := filepath.Glob(filepath.Join(temp, "call-*")); err != nil || len(left) > 0 {
				t.Errorf("after the call there are %q, %v", left, err)
			}
		})
	}
}
