package step_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"symbio/agent/step"
)

// after is a step that gives its number after as many seconds.
func after(n int) step.Step[string, int] {
	return step.Func(func(context.Context, string) (int, error) { time.Sleep(time.Duration(n) * time.Second); return n, nil })
}

func TestParallelGivesResultsInTheOrderTheyEndWithTheirIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		results, err := step.Parallel(0, after(3), fails[string, int](errTest), after(1)).Run(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range results {
			got = append(got, fmt.Sprint(r.Index, " ", r.Value, " ", r.Err))
		}
		if diff := cmp.Diff([]string{"1 0 the test's error", "2 1 <nil>", "0 3 <nil>"}, got); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]int{1, 3}, results.Values()); diff != "" {
			t.Error(diff)
		}
		if err := results.Err(); !errors.Is(err, errTest) || err.Error() != "step 1: the test's error" {
			t.Errorf("the partial errors: %v", err)
		}
	})
}

func TestParallelFailsOnlyWhenAllHaveFailed(t *testing.T) {
	results, err := step.Parallel(0, fails[int, int](errA), fails[int, int](errB)).Run(t.Context(), 1)
	if !errors.Is(err, step.ErrAllStepsFailed) || !errors.Is(err, errA) || !errors.Is(err, errB) || len(results) != 2 {
		t.Errorf("got %v, %v", results, err)
	}
	if results, err := step.Parallel[int, int](0).Run(t.Context(), 1); err != nil || len(results) != 0 {
		t.Errorf("of nobody: %v, %v", results, err)
	}
}

// crowd counts how many are inside at once.
type crowd struct{ now, most atomic.Int64 }

func (c *crowd) step() step.Step[int, int] {
	return step.Func(func(_ context.Context, in int) (int, error) {
		n := c.now.Add(1)
		defer c.now.Add(-1)
		for m := c.most.Load(); n > m && !c.most.CompareAndSwap(m, n); m = c.most.Load() {
		}
		time.Sleep(time.Second)
		return in, nil
	})
}

func TestParallelAndMapRunNoMoreThanTheirLimitAtOnce(t *testing.T) {
	for limit, want := range map[int]int64{1: 1, 3: 3, 0: 16, -1: 16, 99: 40} {
		synctest.Test(t, func(t *testing.T) {
			var p, m crowd
			steps := make([]step.Step[int, int], 40)
			for i := range steps {
				steps[i] = p.step()
			}
			run(t, step.Parallel(limit, steps...), 1)
			run(t, step.Map(limit, m.step()), make([]int, 40))
			if p.most.Load() != want || m.most.Load() != want {
				t.Errorf("limit %d: %d and %d at once, want %d", limit, p.most.Load(), m.most.Load(), want)
			}
		})
	}
}

func TestParallelStartsNothingAfterContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun atomic.Int64
		s := step.Func(func(ctx context.Context, _ int) (int, error) { begun.Add(1); <-ctx.Done(); return 0, ctx.Err() })
		_, err := step.Timeout(time.Second, step.Parallel(1, s, s, s)).Run(t.Context(), 0)
		if begun.Load() != 1 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d begun, %v", begun.Load(), err)
		}
		_, err = step.Timeout(time.Second, step.Map(1, s)).Run(t.Context(), []int{1, 2, 3})
		if begun.Load() != 2 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Map: %d begun, %v", begun.Load()-1, err)
		}
	})
}

// With results, errors and times that are drawn, at any limit, a Map comes to what a loop comes to.
func TestMapOverFuncEqualsALoop(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		takes := rapid.SliceOfN(rapid.IntRange(0, 9), 0, 12).Draw(r, "takes")
		bad := rapid.SliceOfN(rapid.IntRange(0, 5), len(takes), len(takes)).Draw(r, "0 fails")
		limit := rapid.IntRange(0, 5).Draw(r, "limit")
		s := step.Func(func(ctx context.Context, i int) (int, error) {
			select {
			case <-time.After(time.Duration(takes[i]) * time.Second):
			case <-ctx.Done():
				return 0, ctx.Err()
			}
			if bad[i] == 0 {
				return 0, errors.New("bad")
			}
			return 10 * i, nil
		})
		var in, want []int
		wantErr := ""
		for i := range takes {
			in = append(in, i)
			if bad[i] == 0 && wantErr == "" {
				wantErr = fmt.Sprintf("item %d: bad", i)
			}
			want = append(want, 10*i)
		}
		synctest.Test(t, func(t *testing.T) {
			got, err := step.Map(limit, s).Run(t.Context(), in)
			if wantErr != "" {
				if err == nil || err.Error() != wantErr {
					r.Errorf("got %v, want %s", err, wantErr)
				}
			} else if err != nil || !(len(got) == 0 && len(want) == 0) && !cmp.Equal(got, want) {
				r.Errorf("got %v, %v, want %v", got, err, want)
			}
		})
	})
}

func TestMapCancelsOnlyWhatComesBehindAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		ended := map[int]string{}
		s := step.Func(func(ctx context.Context, i int) (_ int, err error) {
			select {
			case <-time.After(time.Duration(5-2*i) * time.Second): // the first takes longest
			case <-ctx.Done():
				err = ctx.Err()
			}
			if i == 1 {
				err = errTest
			}
			mu.Lock()
			defer mu.Unlock()
			ended[i] = fmt.Sprint(err)
			return i, err
		})
		// Item 1 fails after 3 s; item 2 has ended by then, item 3 waits for a place and never begins.
		slow := step.Func(func(ctx context.Context, i int) (int, error) {
			if i == 2 {
				<-ctx.Done()
				mu.Lock()
				defer mu.Unlock()
				ended[2] = "cancelled"
				return 0, ctx.Err()
			}
			return s.Run(ctx, i)
		})
		begun := time.Now()
		_, err := step.Map(3, slow).Run(t.Context(), []int{0, 1, 2, 3})
		if err == nil || err.Error() != "item 1: the test's error" || time.Since(begun) != 5*time.Second {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
		if diff := cmp.Diff(map[int]string{0: "<nil>", 1: "the test's error", 2: "cancelled"}, ended); diff != "" {
			t.Error(diff)
		}
	})
}

// A bug in a step is a bug of who runs it, as without a goroutine, and leaves nobody behind.
func TestPanicBesideOthersIsAPanicOfTheRun(t *testing.T) {
	panics := step.Func(func(context.Context, int) (int, error) { panic("a bug") })
	waits := step.Func(func(ctx context.Context, in int) (int, error) {
		if in == 7 {
			panic("a bug")
		}
		<-ctx.Done()
		return 0, ctx.Err()
	})
	for name, f := range map[string]func(ctx context.Context){
		"Race":     func(ctx context.Context) { step.Race(waits, panics).Run(ctx, 1) },
		"Parallel": func(ctx context.Context) { step.Parallel(0, waits, panics).Run(ctx, 1) },
		"Map":      func(ctx context.Context) { step.Map(0, waits).Run(ctx, []int{1, 7, 2}) },
	} {
		synctest.Test(t, func(t *testing.T) {
			defer func() {
				if p := fmt.Sprint(recover()); !strings.HasPrefix(p, "a bug\n") || !strings.Contains(p, "parallel_test.go") {
					t.Errorf("%s: got %s", name, p)
				}
			}()
			f(t.Context())
		})
	}
}

func TestStepThatEndsItsGoroutineIsAFailure(t *testing.T) {
	gone := step.Func(func(context.Context, int) (int, error) { runtime.Goexit(); return 0, nil })
	if _, err := step.Race(gone, gone).Run(t.Context(), 1); err == nil {
		t.Error("Race: no error")
	}
	if got := run(t, step.Race(gone, step.Empty[int]()), 5); got != 5 {
		t.Errorf("Race: got %d", got)
	}
	if _, err := step.Map(1, gone).Run(t.Context(), []int{1, 2}); err == nil {
		t.Error("Map: no error")
	}
}
