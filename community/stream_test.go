package community_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"symbio/community"
)

// listened has a network that tells what the test wants, whatever the rules are.
func listened(t *testing.T, tell func(ctx context.Context, listen func(community.Update)) (community.Reply, error),
	tune ...func(*community.Config)) (*community.Community, *community.Lease) {
	t.Helper()
	return withPeer(t, &wire{invoke: func(ctx context.Context, _ community.NodeID, call community.Call) (community.Reply, error) {
		return tell(ctx, call.Listen)
	}}, tune...)
}

func TestNodeThatTellsWithoutEndIsCutOff(t *testing.T) {
	for name, u := range map[string]community.Update{
		"progress":       {Progress: community.Progress{Message: "x"}},
		"nothing at all": {},
		"empty output":   {Output: []byte{}},
		"bytes":          {Output: []byte("x")},
		"long output":    {Output: make([]byte, 1<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := listened(t, func(ctx context.Context, listen func(community.Update)) (community.Reply, error) {
					for ctx.Err() == nil {
						listen(u)
					}
					for range 10 {
						listen(u) // it goes on
					}
					return community.Reply{Data: []byte("an answer")}, nil
				})
				progress, output := 0, 0
				r, err := c.InvokeStream(t.Context(), community.MemberID(peer), "text.upper", community.Signal{}, func(u community.Update) {
					if output += len(u.Output); u.Output == nil {
						progress++
					}
				})
				if !errors.Is(err, community.ErrTooLarge) || r.Data != nil {
					t.Errorf("got %q, %v, want ErrTooLarge", r.Data, err)
				}
				if progress > 80 || u.Progress.Message == "" && progress > 0 || output > 16<<20 {
					t.Errorf("%d reports and %d bytes were heard", progress, output)
				}
			})
		})
	}
}

func TestTextOfNodeIsPrintable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := listened(t, func(_ context.Context, listen func(community.Update)) (community.Reply, error) {
			listen(community.Update{Progress: community.Progress{Message: "\x1b]0;x\x07" + strings.Repeat("y", 10_000), Done: -1,
				Total: 5}, Missed: 7})
			listen(community.Update{Output: []byte("x"), ContentType: "text/\x1b[31m"})
			return community.Reply{}, nil
		})
		var h heard
		if _, err := c.InvokeStream(t.Context(), community.MemberID(peer), "text.upper", community.Signal{}, h.hear); err != nil ||
			len(h.all) != 2 {
			t.Fatalf("heard %v, %v", h.all, err)
		}
		if p := h.all[0].Progress; strings.ContainsAny(p.Message, "\x1b\x07") || len(p.Message) > 503 || p.Total != 0 ||
			h.all[0].Missed != 7 {
			t.Errorf("heard %+v", h.all[0])
		}
		if got := h.all[1]; got.ContentType != "" || string(got.Output) != "x" {
			t.Errorf("heard %+v", got)
		}
	})
}

func TestUpdatesThatComeAfterTheirLeaseDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		retired := make(chan bool)
		c, l := listened(t, func(ctx context.Context, listen func(community.Update)) (community.Reply, error) {
			listen(community.Update{Output: []byte("in time")})
			<-retired
			listen(community.Update{Output: []byte("too late")})
			return community.Reply{}, nil
		})
		var h heard
		var call sync.WaitGroup
		call.Go(func() {
			_, err := c.InvokeStream(context.Background(), community.MemberID(peer), "text.upper", community.Signal{}, h.hear)
			if !errors.Is(err, community.ErrUnavailable) {
				t.Errorf("got %v, want ErrUnavailable", err)
			}
		})
		synctest.Wait()
		l.Lost(errors.New("silence"))
		close(retired)
		call.Wait()
		if len(h.all) != 1 || string(h.all[0].Output) != "in time" {
			t.Errorf("heard %v", h.all)
		}
	})
}

func TestListenedCallIsCheckedAsAnyOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := listened(t, func(ctx context.Context, _ func(community.Update)) (community.Reply, error) {
			if d, ok := ctx.Deadline(); !ok || time.Until(d) != 5*time.Minute {
				t.Errorf("it has until %v, %v; want 5m", time.Until(d), ok)
			}
			return community.Reply{Data: make([]byte, 101)}, nil
		}, func(cfg *community.Config) { cfg.MaxMessage = 100 })
		hear := func(u community.Update) { t.Errorf("heard %+v", u) }
		for name, tt := range map[string]struct {
			on         community.MemberID
			capability string
			payload    int
			want       error
		}{
			"nobody":         {"nobody", "text.upper", 0, community.ErrNotFound},
			"not provided":   {community.MemberID(peer), "text.lower", 0, community.ErrNotProvided},
			"this node":      {community.MemberID(c.Node()), "text.upper", 0, community.ErrLocalMember},
			"a large input":  {community.MemberID(peer), "text.upper", 101, community.ErrTooLarge},
			"a large answer": {community.MemberID(peer), "text.upper", 100, community.ErrTooLarge},
		} {
			if _, err := c.InvokeStream(t.Context(), tt.on, tt.capability, community.Signal{Data: make([]byte, tt.payload)},
				hear); !errors.Is(err, tt.want) {
				t.Errorf("%s: got %v, want %v", name, err, tt.want)
			}
		}
	})
}
