package retry_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/retry"
)

// one is a model of a list that answers with its name, or fails.
type one struct {
	name  string
	fails error
	late  bool // after a piece of text
	asked atomic.Int32
}

func (o *one) Name() string { return o.name }

func (o *one) Stream(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		o.asked.Add(1)
		var err error
		switch {
		case ctx.Err() != nil:
			err = ctx.Err()
		case o.fails != nil:
			err = &llm.Error{Model: o.name, Err: o.fails, RetryAfter: map[bool]time.Duration{true: 2 * time.Minute}[o.fails == llm.ErrRateLimited]}
		}
		if err == nil || o.late {
			if !yield(llm.Chunk{Text: o.name}, nil) {
				return
			}
		}
		if err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		yield(llm.Chunk{Stop: llm.StopEnd}, nil)
	}
}

func TestListAsksTheNextWhenOneFails(t *testing.T) {
	first := func(models ...llm.Model) llm.Model { return retry.New(retry.Config{}, models...) }
	for _, c := range []struct {
		name  string
		fails error
		late  bool
		next  bool
	}{
		{"too many requests", llm.ErrRateLimited, false, true},
		{"no key", llm.ErrAuth, false, true},
		{"no money", llm.ErrQuota, false, true},
		{"too long", llm.ErrContextLength, false, true},
		{"cut before anything", llm.ErrCut, false, true},
		{"cut later", llm.ErrCut, true, false},
		{"refused", llm.ErrRefused, false, false},
	} {
		a, b := &one{name: "a", fails: c.fails, late: c.late}, &one{name: "b"}
		list := first(a, b)
		var told []llm.Retry
		got, err := llm.Collect(list.Stream(t.Context(), llm.Request{}), func(c llm.Chunk) {
			if c.Retry != nil {
				told = append(told, *c.Retry)
			}
		})
		if c.next && (err != nil || got.Message.Text != "b" || len(told) != 1 || told[0].Model != "a" || told[0].Next != "b" || !errors.Is(told[0].Err, c.fails)) {
			t.Errorf("%s: %q, %v, told %+v; want b's answer", c.name, got.Message.Text, err, told)
		}
		if !c.next && (!errors.Is(err, c.fails) || b.asked.Load() > 0) {
			t.Errorf("%s: %v, b asked %d times; want a's error", c.name, err, b.asked.Load())
		}
	}
	if name := first(&one{name: "a"}, &one{name: "b"}).Name(); name != "a,b" {
		t.Errorf("name = %q", name)
	}
	if _, err := llm.Collect(first().Stream(t.Context(), llm.Request{}), nil); !errors.Is(err, llm.ErrNoModel) {
		t.Errorf("an empty list: %v", err)
	}
}

func TestListThatFailsWhollySaysWhy(t *testing.T) {
	first := func(models ...llm.Model) llm.Model { return retry.New(retry.Config{Patience: -1}, models...) }
	_, err := llm.Collect(first(&one{name: "a", fails: llm.ErrAuth}, &one{name: "b", fails: llm.ErrUnavailable}).Stream(t.Context(), llm.Request{}), nil)
	if !errors.Is(err, llm.ErrAuth) || !errors.Is(err, llm.ErrUnavailable) || !strings.Contains(err.Error(), "model a: the key was refused; model b: not available") {
		t.Errorf("error = %v, want both", err)
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	b := &one{name: "b"}
	if _, err := llm.Collect(first(&one{name: "a"}, b).Stream(ended, llm.Request{}), nil); !errors.Is(err, context.Canceled) || b.asked.Load() > 0 {
		t.Errorf("an ended context: %v, b asked %d times", err, b.asked.Load())
	}
}

// asks asks m once and reports the name of the model that answered.
func asks(t *testing.T, m llm.Model) string {
	t.Helper()
	got, err := llm.Collect(m.Stream(t.Context(), llm.Request{}), nil)
	if err != nil {
		t.Error(err)
	}
	return got.Message.Text
}

func TestModelThatFailsIsAskedLastByAllWithItsBook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &one{name: "a", fails: llm.ErrUnavailable}, &one{name: "b"}
		book := new(retry.Book)
		ask := func(want string, asked int32) {
			t.Helper()
			// Each agent opens the models anew.
			if got := asks(t, retry.New(retry.Config{Book: book}, a, b)); got != want || a.asked.Load() != asked {
				t.Errorf("%q, a asked %d times; want %s, %d", got, a.asked.Load(), want, asked)
			}
		}
		ask("b", 1)
		ask("b", 1) // it rests for a moment
		time.Sleep(time.Second)
		ask("b", 2) // after the second failure it is asked last
		time.Sleep(29 * time.Second)
		ask("b", 2)
		time.Sleep(2 * time.Second)
		a.fails = llm.ErrRateLimited // for two minutes, it says
		ask("b", 3)
		time.Sleep(31 * time.Second)
		ask("b", 3)
		time.Sleep(90 * time.Second)
		a.fails = llm.ErrContextLength // of this conversation
		ask("b", 4)
		a.fails = llm.ErrAuth
		ask("b", 5)
		ask("b", 5)
		time.Sleep(31 * time.Second)
		a.fails = nil
		ask("a", 6)
	})
}

func TestHealthSaysWhoIsAskedLastAndUntilWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, c := &one{name: "a", fails: llm.ErrRateLimited}, &one{name: "b", fails: llm.ErrAuth}, &one{name: "c"}
		book := new(retry.Book)
		list := retry.New(retry.Config{Book: book}, a, b, c)
		asks(t, list)
		health := func() (text []string) {
			for _, h := range book.Health() {
				text = append(text, fmt.Sprint(h.Model, " ", h.Wait, " ", h.Avoid, " ", h.Failures, " ", h.Err != nil))
			}
			return text
		}
		if d := cmp.Diff([]string{"a 2m0s 2m0s 1 true", "b 0s 30s 0 true"}, health()); d != "" {
			t.Errorf("after a failure (-want +got):\n%s", d)
		}
		time.Sleep(2*time.Minute + time.Second)
		if d := cmp.Diff([]string{"a 0s 0s 1 true"}, health()); d != "" {
			t.Errorf("later (-want +got):\n%s", d)
		}
		a.fails = nil
		if asks(t, list); book.Health() != nil {
			t.Errorf("after an answer: %v", health())
		}
	})
}

func TestOneRequestFindsOutWhetherAServerWorksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		var now atomic.Bool
		server := func(ctx context.Context, _ llm.Request) (llm.Response, error) {
			asked.Add(1)
			time.Sleep(time.Second)
			if !now.Load() {
				return llm.Response{}, &llm.Error{Err: llm.ErrUnavailable, Status: 503}
			}
			return llm.Response{Message: llm.Message{Text: "yes"}}, nil
		}
		book := new(retry.Book)
		var agents sync.WaitGroup
		for range 64 {
			agents.Go(func() {
				if got := asks(t, retry.New(retry.Config{Book: book}, llm.Func(server))); got != "yes" {
					t.Errorf("an answer is %q", got)
				}
			})
		}
		time.Sleep(time.Minute)
		if n := asked.Load(); n > 64+10 {
			t.Errorf("in a minute of outage 64 agents asked %d times; want all once, then one at a time", n)
		}
		now.Store(true)
		agents.Wait()
		begin := time.Now()
		for range 2 {
			agents.Go(func() { asks(t, retry.New(retry.Config{Book: book}, llm.Func(server))) })
		}
		agents.Wait()
		if took := time.Since(begin); took != time.Second {
			t.Errorf("after the outage two at once took %v, want a second", took)
		}
	})
}

func TestRequestThatEndsWhileItTriesLetsOthersTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		server := llm.Func(func(ctx context.Context, _ llm.Request) (llm.Response, error) {
			switch asked.Add(1) {
			case 1:
				return llm.Response{}, &llm.Error{Err: llm.ErrUnavailable, Status: 503}
			case 2:
				<-ctx.Done()
				return llm.Response{}, ctx.Err()
			}
			return llm.Response{Message: llm.Message{Text: "yes"}}, nil
		})
		m := retry.New(retry.Config{}, server)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		var both sync.WaitGroup
		both.Go(func() {
			if _, err := llm.Collect(m.Stream(ctx, llm.Request{}), nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the one that tries: %v", err)
			}
		})
		time.Sleep(10 * time.Second)
		if got := asks(t, m); got != "yes" {
			t.Errorf("the next one got %q", got)
		}
		both.Wait()
	})
}

func TestSilentModelIsLeftForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := llm.Func(func(ctx context.Context, _ llm.Request) (llm.Response, error) {
			<-ctx.Done()
			return llm.Response{}, ctx.Err()
		})
		b := &one{name: "b"}
		for most, want := range map[time.Duration]time.Duration{0: 30 * time.Second, time.Second: time.Second, time.Hour: 30 * time.Second} {
			m := retry.New(retry.Config{FirstToken: most}, silent, b)
			begin := time.Now()
			if got := asks(t, m); got != "b" || time.Since(begin) != want {
				t.Errorf("%q after %v; want b after %v", got, time.Since(begin), want)
			}
			begin = time.Now()
			if got := asks(t, m); got != "b" || time.Since(begin) != 0 {
				t.Errorf("then %q after %v; want b at once", got, time.Since(begin))
			}
		}
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
		defer stop()
		if _, err := llm.Collect(retry.New(retry.Config{}, silent).Stream(ctx, llm.Request{}), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a single model: %v, want it to have the time that its own limits give", err)
		}
	})
}

func TestLeastBusyIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(name string) llm.Model {
			return llm.Use(&one{name: name}, func(ctx context.Context, r llm.Request, next llm.StreamFunc) iter.Seq2[llm.Chunk, error] {
				time.Sleep(time.Second)
				return next(ctx, r)
			})
		}
		for least, want := range map[bool]map[string]int{false: {"a": 6}, true: {"a": 3, "b": 3}} {
			m := retry.New(retry.Config{LeastBusy: least}, slow("a"), slow("b"))
			var mu sync.Mutex
			answered := map[string]int{}
			var agents sync.WaitGroup
			for range 6 {
				agents.Go(func() {
					got := asks(t, m)
					mu.Lock()
					defer mu.Unlock()
					answered[got]++
				})
			}
			agents.Wait()
			if d := cmp.Diff(want, answered); d != "" {
				t.Errorf("least busy %v (-want +got):\n%s", least, d)
			}
		}
	})
}

func TestEachRepetitionIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &one{name: "a", fails: llm.ErrUnavailable}, &one{name: "b", fails: llm.ErrUnavailable}
		told := int32(0)
		_, _ = llm.Collect(retry.New(retry.Config{Patience: 10 * time.Second}, a, b).Stream(t.Context(), llm.Request{}), func(c llm.Chunk) {
			if c.Retry != nil {
				told++
			}
		})
		if asked := a.asked.Load() + b.asked.Load(); told != asked-1 || asked < 4 {
			t.Errorf("asked %d times, told %d repetitions", asked, told)
		}
	})
}
