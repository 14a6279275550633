//go:build system && linux

package crash_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"symbio/cmd/symbio/symbiotest"
	symbiov1 "symbio/proto/symbio/v1"

	"golang.org/x/sync/errgroup"
)

// nextAnswer is what the model answers to a history: the first step that it has not asked for yet. It
// never repeats a call.
func nextAnswer(history []symbiotest.ModelMessage) symbiotest.ModelAnswer {
	if strings.HasPrefix(history[0].Text, symbiotest.ChildWord) {
		return symbiotest.StepAnswer(history, symbiotest.ChildAnswer, symbiotest.Bash(3))
	}
	return symbiotest.StepAnswer(history, symbiotest.CrashAnswer,
		[]symbiotest.ModelCall{{Name: "Read", Args: json.RawMessage(`{"file_path":"notes.txt"}`)}, symbiotest.Bash(1)[0]},
		symbiotest.Bash(2),
		[]symbiotest.ModelCall{{Name: "replicate_agent", Args: json.RawMessage(`{"reason":"a part of it","name":"helper","task":"` + symbiotest.ChildWord + ` three of the list."}`)}},
		[]symbiotest.ModelCall{{Name: "wait_agents", Args: json.RawMessage(`{}`)}},
		[]symbiotest.ModelCall{{Name: "Edit", Args: json.RawMessage(`{"file_path":"notes.txt","old_string":"(mark)","new_string":"(mark)(edited)"}`)}},
	)
}

// The node is killed before and after each of its commits, and at random moments, also while it resumes.
// SYMBIO_SOAK makes 300 random moments of the 20. Under the race detector, which sees this test only and not the program that
// it builds, it is one commit of five.
func TestKillNineAtEverySeam(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves it out: it builds a program and starts many nodes")
	}
	t.Parallel()
	binary := symbiotest.BuildFaulty(t)
	t.Run("seams", func(t *testing.T) { killAtSeams(t, binary) })
	t.Run("full disk", func(t *testing.T) { stopAtFullDisk(t, binary) })
	t.Run("read-only disk", func(t *testing.T) { refuseReadOnlyDisk(t, binary) })
	t.Run("moments", func(t *testing.T) { killAtMoments(t, binary) })
}

// killAtSeams kills nodes at one commit after the other, until the task ends without reaching it.
func killAtSeams(t *testing.T, binary string) {
	var passed atomic.Int32 // how many points were reached
	for _, point := range []string{"before", "after"} {
		var cases errgroup.Group
		cases.SetLimit(4)
		var over atomic.Bool
		for n := 1 + rand.IntN(symbiotest.Slow); !over.Load() && n < 100; n += symbiotest.Slow {
			cases.Go(func() error {
				at := fmt.Sprintf("%s:%d", point, n)
				t.Run(at, func(t *testing.T) {
					provider := symbiotest.Providers[n%2]
					m := symbiotest.NewStrictModel(t, nextAnswer)
					a := symbiotest.NewCrashNode(t, binary, symbiotest.ShortDir(t), "a", "127.0.0.1:0", provider, m, symbiotest.LoneConfig)
					a.Start(at)
					x, ended := a.Converse(&symbiov1.RunRequest{Task: symbiotest.CrashTask})
					if !ended {
						over.Store(true)
					} else {
						passed.Add(1)
					}
					a.Kill()
					a.Start("")
					if root, kept := a.History().Root(); x.Session != "" && (!kept || root.ID != x.Session || root.Tasks != 1) {
						t.Errorf("the caller was told of session %s; kept is %+v", x.Session, root)
					}
					if !a.Finish() {
						t.Errorf("the node ended again\n%s", a.LogTail())
					}
					a.Kill()
					a.Check(m)
				})
				return nil
			})
		}
		if err := cases.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("killed at %d points", passed.Load())
	if want := int32(30 / symbiotest.Slow); passed.Load() < want && !t.Failed() {
		t.Errorf("the task has only %d points, want %d", passed.Load(), want)
	}
}

// killAtMoments kills nodes at random moments, up to three times in one task.
func killAtMoments(t *testing.T, binary string) {
	moments := 20 / symbiotest.Slow
	if os.Getenv(symbiotest.SoakSpan) != "" {
		moments = 300
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(symbiotest.SoakSeed); text != "" {
		if _, err := fmt.Sscan(text, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d", seed)
	var cases errgroup.Group
	cases.SetLimit(4)
	for i := range moments {
		cases.Go(func() error {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, uint64(i)))
				m := symbiotest.NewStrictModel(t, nextAnswer)
				a := symbiotest.NewCrashNode(t, binary, symbiotest.ShortDir(t), "a", "127.0.0.1:0", symbiotest.Providers[i%2], m, symbiotest.LoneConfig)
				a.Start("")
				for range 1 + random.IntN(3) {
					process := a.Cmd.Process
					timer := time.AfterFunc(time.Duration(random.IntN(400))*time.Millisecond, func() { _ = process.Kill() })
					done := a.FinishOrBegin()
					timer.Stop()
					a.Kill()
					a.Start("")
					if done {
						break
					}
				}
				if !a.Finish() {
					t.Errorf("the node ended by itself\n%s", a.LogTail())
				}
				a.Kill()
				a.Check(m)
			})
			return nil
		})
	}
	if err := cases.Wait(); err != nil {
		t.Fatal(err)
	}
}
