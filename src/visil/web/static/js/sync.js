// Two videos that run together along a line between their times, also where one is slower than the other.

import { inside, ofSegment, toQuery, toTarget } from "./alignment.js";

/** How far apart the follower may be before it is nudged, and before it is set right at once; seconds. */
const NUDGE = 0.03;
const JUMP = 0.3;
/** How often still pictures move on while the other side plays, seconds. */
const SLIDE = 0.5;

export class Sync {
  /** moved(queryTime, targetTime) is called whenever either changes, changed() when it starts or stops. */
  constructor(query, target, moved, changed) {
    Object.assign(this, { query, target, moved, changed, playing: false, speed: 1, repeat: false });
    this.line = { query: 0, target: 0, ratio: 1 };
    this.stretch = null;
    this.now = 0;
    this.slid = { query: -1, target: -1 };
  }

  /** Run along a segment from here on, and go to where it begins. */
  choose(segment) {
    this.line = ofSegment(segment);
    this.stretch = segment.query;
    this.goto(segment.query[0]);
  }

  /** Run along another line from here on, within a stretch of the query or, with null, to the end. */
  align(line, stretch) {
    this.line = line;
    this.stretch = stretch;
  }

  /** Both to a time of the query. */
  goto(time) {
    this.now = Math.min(Math.max(time, 0), this.query.seconds);
    this.query.seek(this.now);
    this.target.seek(toTarget(this.line, this.now));
    this.tell();
  }

  /** Both to a time of the target. */
  gotoTarget(time) {
    this.now = toQuery(this.line, time);
    this.query.seek(this.now);
    this.target.seek(time);
    this.tell();
  }

  tell() {
    this.moved(Math.min(Math.max(this.now, 0), this.query.seconds), Math.min(Math.max(toTarget(this.line, this.now), 0), this.target.seconds));
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  play() {
    if (this.stretch && Math.abs(this.now - this.stretch[1]) < 0.05) this.goto(this.stretch[0]);
    else if (this.over()) this.goto(0);
    this.playing = true;
    this.last = performance.now();
    this.changed();
    requestAnimationFrame(this.tick);
  }

  pause() {
    if (!this.playing) return;
    this.playing = false;
    this.query.pause();
    this.target.pause();
    this.goto(this.now);
    this.changed();
  }

  /** The side whose clock counts: one that plays, the query if both do. */
  get leader() {
    if (this.query.moving) return this.query;
    return this.target.moving && this.line.ratio > 0 ? this.target : null;
  }

  /** Where one side should be now, in its own time. */
  own(side) {
    return side === this.query ? this.now : toTarget(this.line, this.now);
  }

  /** Whether the side whose clock counts has come to its end. */
  over() {
    const side = this.leader ?? this.query;
    return side.ended || this.own(side) >= side.seconds - 0.02;
  }

  tick = (stamp) => {
    if (!this.playing) return;
    const before = this.now;
    const { leader, line } = this;
    const passed = Math.max(0, (stamp - this.last) / 1000);
    this.last = stamp;
    // Before its own first frame not even the leader runs, so the time has to be counted here.
    if (!leader || this.own(leader) < 0) this.now += passed * this.speed;
    else this.now = leader === this.query ? leader.time : toQuery(line, leader.time);
    if (this.stretch && inside(this.stretch, before) && this.now >= this.stretch[1]) {
      if (this.repeat) this.goto(this.stretch[0]);
      else {
        this.now = this.stretch[1];
        this.pause();
        return;
      }
    }
    if (this.over()) {
      this.pause();
      return;
    }
    this.drive(this.query, this.speed, leader);
    this.drive(this.target, this.speed * line.ratio, leader);
    this.tell();
    requestAnimationFrame(this.tick);
  };

  // Keep one side at its time: the leader runs freely, the other is nudged by its speed or, far off, set right.
  drive(side, rate, leader) {
    const wanted = this.own(side);
    if (wanted < 0 || wanted > side.seconds) {
      side.pause();
      return;
    }
    if (!side.moving || rate <= 0) { // no player runs backwards: still pictures do
      side.pause();
      if (Math.abs(wanted - this.slid[side.side]) < SLIDE) return;
      this.slid[side.side] = wanted;
      side.seek(wanted);
      return;
    }
    const off = wanted - side.time;
    if (side !== leader && Math.abs(off) > JUMP * Math.max(1, rate)) side.seek(wanted);
    const nudge = side === leader || Math.abs(off) < NUDGE ? 0 : Math.max(-0.25, Math.min(0.25, off));
    side.rate = rate * (1 + nudge);
    side.play();
  }
}
