package engine

import (
	"sort"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// MappingRow is a row of cdc.lsn_time_mapping. The times are datetime values of the server's wall clock (1/300 s), which
// repeat when the clock falls back: order by LSN, never by time [M22]. An idle entry has TranID 0x00 and no changes.
type MappingRow struct {
	StartLSN      LSN
	TranBeginTime sqltype.Value
	TranEndTime   sqltype.Value
	TranID        []byte
	TranBeginLSN  LSN
}

// mappingEntry is a mapping row as stored: 48 bytes.
type mappingEntry struct {
	start, begin       lsnKey
	beginTime, endTime int64 // 1/300 s since 1900-01-01, wall clock
	tranID             uint64
}

const mappingSegmentRows = 8192

// mappingSegment holds up to mappingSegmentRows rows. Rows below the length that a Mapping publishes never change.
type mappingSegment struct {
	rows []mappingEntry // capacity mappingSegmentRows
}

// Mapping is an immutable snapshot of cdc.lsn_time_mapping in the order of start_lsn.
type Mapping struct {
	segments []*mappingSegment
	skip     int // rows cleaned up at the front of segments[0]
	n        int
}

// TimeRelation is the first argument of sys.fn_cdc_map_time_to_lsn.
type TimeRelation uint8

// The four relations.
const (
	LargestLess TimeRelation = iota
	LargestLessOrEqual
	SmallestGreater
	SmallestGreaterOrEqual
)

// Len is the number of rows.
func (m Mapping) Len() int { return m.n }

// At is row i, counted from the smallest LSN.
func (m Mapping) At(i int) MappingRow { return m.at(i).row() }

func (m Mapping) at(i int) *mappingEntry {
	i += m.skip
	return &m.segments[i/mappingSegmentRows].rows[i%mappingSegmentRows]
}

func (e *mappingEntry) row() MappingRow {
	r := MappingRow{
		StartLSN: e.start.lsn(), TranBeginLSN: e.begin.lsn(),
		TranBeginTime: dateTimeValue(e.beginTime), TranEndTime: dateTimeValue(e.endTime),
		TranID: []byte{0},
	}
	if e.tranID != 0 { // 6 bytes, as the log prints transaction ids [K]
		id := e.tranID
		r.TranID = []byte{byte(id >> 40), byte(id >> 32), byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}
	}
	return r
}

// Search finds the first row whose start_lsn is lsn or larger; Len when there is none.
func (m Mapping) Search(lsn LSN) int { return m.search(lsn.key()) }

func (m Mapping) search(k lsnKey) int {
	return sort.Search(m.n, func(i int) bool { return !m.at(i).start.less(k) })
}

// Find gives the row of exactly that LSN.
func (m Mapping) Find(lsn LSN) (MappingRow, bool) {
	i := m.Search(lsn)
	if i == m.n || m.at(i).start != lsn.key() {
		return MappingRow{}, false
	}
	return m.At(i), true
}

// LSNToTime is sys.fn_cdc_map_lsn_to_time: tran_end_time of exactly that LSN, NULL otherwise [D, M22].
func (m Mapping) LSNToTime(lsn LSN) sqltype.Value {
	r, ok := m.Find(lsn)
	if !ok {
		return sqltype.Null()
	}
	return r.TranEndTime
}

// TimeToLSN is sys.fn_cdc_map_time_to_lsn for a datetime: among the rows whose time is nearest to t on the asked side, the
// smallest or largest LSN; false when no row qualifies [D]. Times need not grow with the LSN, so every row is looked at.
func (m Mapping) TimeToLSN(rel TimeRelation, t sqltype.Value) (LSN, bool) {
	want := dateTimeUnits(t)
	best := -1
	for i := range m.n {
		at := m.at(i).endTime
		switch rel {
		case LargestLess, LargestLessOrEqual:
			if at < want || at == want && rel == LargestLessOrEqual {
				if best < 0 || at >= m.at(best).endTime {
					best = i
				}
			}
		default:
			if at > want || at == want && rel == SmallestGreaterOrEqual {
				if best < 0 || at < m.at(best).endTime {
					best = i
				}
			}
		}
	}
	if best < 0 {
		return LSN{}, false
	}
	return m.at(best).start.lsn(), true
}

// append adds rows behind the last one, which must all be larger. Only the database's single writer may call it: it writes
// into the spare room of the last segment, which no published Mapping reads.
func (m Mapping) append(rows []mappingEntry) Mapping {
	segments := m.segments[:len(m.segments):len(m.segments)]
	for _, r := range rows {
		if n := len(segments); n == 0 || m.skip+m.n == n*mappingSegmentRows {
			segments = append(segments, &mappingSegment{rows: make([]mappingEntry, mappingSegmentRows)})
		}
		at := m.skip + m.n
		segments[at/mappingSegmentRows].rows[at%mappingSegmentRows] = r
		m.n++
	}
	m.segments = segments
	return m
}

// trim drops the first n rows.
func (m Mapping) trim(n int) Mapping {
	m.n -= n
	m.skip += n
	for m.skip >= mappingSegmentRows {
		m.segments = m.segments[1:]
		m.skip -= mappingSegmentRows
	}
	return m
}

const dateTimeUnitsPerDay = 86_400 * 300

func dateTimeUnits(v sqltype.Value) int64 { return int64(v.Days())*dateTimeUnitsPerDay + v.Ticks() }

func dateTimeValue(units int64) sqltype.Value {
	days := units / dateTimeUnitsPerDay
	ticks := units % dateTimeUnitsPerDay
	if ticks < 0 {
		days--
		ticks += dateTimeUnitsPerDay
	}
	return sqltype.DateTime(int32(days), int32(ticks))
}

// wallClock is the datetime of an instant on the server's clock, in 1/300 s since 1900-01-01.
func wallClock(t time.Time, loc *time.Location) int64 {
	return dateTimeUnits(sqltype.FromTimeDateTime(t.In(loc)))
}

// detached is a mapping whose last segment is its own.
func (m Mapping) detached() Mapping {
	if n := len(m.segments); n > 0 {
		last := &mappingSegment{rows: make([]mappingEntry, mappingSegmentRows)}
		copy(last.rows, m.segments[n-1].rows[:(m.skip+m.n)-(n-1)*mappingSegmentRows])
		m.segments = append(m.segments[:n-1:n-1], last)
	}
	return m
}
