package exec

import (
	"context"
	"strings"
	"testing"

	"symbio/agent/node/config"
	"symbio/community"

	"github.com/google/go-cmp/cmp"
)

func TestLinesAreToldOneByOne(t *testing.T) {
	for name, tt := range map[string]struct {
		written []string
		want    []string
	}{
		"lines":             {[]string{"one\ntwo\n"}, []string{"one", "two"}},
		"in pieces":         {[]string{"o", "ne\nt", "wo"}, []string{"one", "two"}},
		"empty ones":        {[]string{"\n\n \t\none\n\n"}, []string{"one"}},
		"drawn over":        {[]string{"10%\r20%\r\n30%"}, []string{"10%", "20%", "30%"}},
		"in colour":         {[]string{"\x1b[1;31mred\x1b[0m \x1b]0;title\x07text\x1b]8;;http://x\x1b\\link\n"}, []string{"red textlink"}},
		"an escape in two":  {[]string{"\x1b[3", "1mred\n"}, []string{"red"}},
		"only escapes":      {[]string{"\x1b[2J\x1b[H\n"}, nil},
		"a very long line":  {[]string{strings.Repeat("x", 5000), strings.Repeat("y", 5000) + "\nnext\n"}, []string{strings.Repeat("x", 1024), "next"}},
		"a line of exactly": {[]string{strings.Repeat("x", 1024), "\nnext"}, []string{strings.Repeat("x", 1024), "next"}},
	} {
		var got []string
		l := &lines{emit: func(line string) { got = append(got, line) }}
		for _, w := range tt.written {
			if n, err := l.Write([]byte(w)); n != len(w) || err != nil {
				t.Errorf("%s: wrote %d of %d, %v", name, n, len(w), err)
			}
		}
		l.end()
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: other lines are told (-want +got):\n%s", name, diff)
		}
	}
}

func TestLineSaysHowFarItIs(t *testing.T) {
	for line, want := range map[string]float64{
		"50%": 50, "done 12.5 % of it": 12.5, "100%": 100, "0% of 100%": 0, "101%": 0, "9999%": 0, "x50%": 0, "fifty": 0, "%": 0,
	} {
		p := progressOf(line)
		told := !strings.ContainsAny(line, "x") && line != "101%" && line != "9999%" && line != "fifty" && line != "%"
		if p.Message != line || p.Done != want || (p.Total == 100) != told {
			t.Errorf("%q is %+v", line, p)
		}
	}
}

// listening runs a capability's command as a call of another node does that listens.
func listening(t *testing.T, c config.Capability, ctx context.Context) (progress []string, err error) {
	t.Helper()
	home := community.New(community.Config{Authorize: func(community.Peer, community.Call) error { return nil }})
	if err := home.Offer(community.Capability{Name: "x"}, func(ctx context.Context, s community.Signal) (community.Reply, error) {
		out, err := boxed(t, c).Answer(ctx, s.Data, "")
		return community.Reply{Data: out}, err
	}); err != nil {
		t.Fatal(err)
	}
	_, err = home.Serve(ctx, community.Peer{ID: "cc000000000000000000000000000000"}, community.Call{
		Capability: "x", Listen: func(u community.Update) { progress = append(progress, u.Progress.Message) },
	})
	return progress, err
}

func TestOnlyACommandThatIsToldToShowsItsStandardError(t *testing.T) {
	c := sh(t, `echo /secret/path >&2; echo 1`)
	if got, err := listening(t, c, t.Context()); len(got) != 0 || err != nil {
		t.Errorf("a command that was told nothing shows %q, %v", got, err)
	}
	c.Progress = true
	if got, err := listening(t, c, t.Context()); len(got) != 1 || got[0] != "/secret/path" || err != nil {
		t.Errorf("a command that was told to shows %q, %v", got, err)
	}
}

func TestCommandInheritsTheTraceOfItsCall(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	t.Setenv("TRACEPARENT", "00-11111111111111111111111111111111-1111111111111111-01") // this process's own
	c := sh(t, `echo "\"$TRACEPARENT $TRACESTATE\""`)
	ctx := community.WithTrace(t.Context(), community.ParseTrace(parent, "x=y"))
	if got, err := boxed(t, c).Answer(ctx, nil, ""); err != nil || string(got) != `"`+parent+` x=y"` {
		t.Errorf("the command sees %s, %v", got, err)
	}
	if got, err := boxed(t, c).Answer(t.Context(), nil, ""); err != nil || string(got) != `" "` {
		t.Errorf("without a trace the command sees %s, %v", got, err)
	}
}
