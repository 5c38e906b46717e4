// Encodes pictures as a video and muxes it into an MP4 file, in a page without network access. `muxing` is mp4-muxer.
((muxing) => {
  // Codecs in order of preference; the first supported one is used. H.264 plays everywhere.
  const CODECS = [
    ['avc', 'avc1.640033'],
    ['avc', 'avc1.420033'],
    ['vp9', 'vp09.00.51.08'],
    ['av1', 'av01.0.13M.08'],
  ];
  // Target bits per changed pixel, which keep text sharp. Chromium's encoders control the rate.
  const BITS_PER_PIXEL = 1.5;
  const [MIN_BITRATE, MAX_BITRATE] = [1_000_000, 25_000_000];
  const MAX_QUEUE = 2;
  // Interval after which an unchanged picture is encoded again, since some players cannot seek within a longer one.
  const MAX_PICTURE_MS = 1_000;
  const KEY_FRAME_INTERVAL_MS = 10_000;
  const MAX_SOURCE_SIDE = 16_384;
  // Dimensions of a video without its caption. They are even, since chroma is stored for two by two pixels.
  const [MIN_SIDE, MAX_SIDE] = [16, 1_920];
  const CAPTION = { height: 32, margin: 8, font: '16px system-ui, sans-serif', color: '#ebebeb', ellipsis: '…' };
  // Maximum number of file bytes per response.
  const MAX_ANSWER_BYTES = 8 << 20;

  const even = (side) => Math.max(side & ~1, MIN_SIDE);

  // Returns the largest size with the same aspect ratio within bounds, scaled up at most `maxScale` times.
  const fitted = (width, height, maxWidth, maxHeight, maxScale) => {
    const scale = Math.min(maxWidth / width, maxHeight / height, maxScale);
    const scaled = (side, bound) => Math.min(Math.max(Math.round(side * scale), 1), bound);
    return [scaled(width, maxWidth), scaled(height, maxHeight)];
  };

  class Failure extends Error {
    constructor(kind, message) {
      super(message);
      this.kind = kind;
    }
  }

  const decoded = async (base64) => {
    try {
      const jpeg = new Blob([Uint8Array.fromBase64(base64)], { type: 'image/jpeg' });
      const picture = await createImageBitmap(jpeg);
      if (Math.max(picture.width, picture.height) > MAX_SOURCE_SIDE) throw new Error('the picture is too large');
      return picture;
    } catch (error) {
      throw new Failure('picture', error.message);
    }
  };

  const supported = async (size, framesPerSecond) => {
    const pixels = size.width * size.height * framesPerSecond;
    const bitrate = Math.min(Math.max(Math.round(pixels * BITS_PER_PIXEL), MIN_BITRATE), MAX_BITRATE);
    for (const [name, codec] of CODECS) {
      const config = {
        codec, ...size, bitrate, bitrateMode: 'variable', framerate: framesPerSecond, latencyMode: 'quality',
        ...(name === 'avc' && { avc: { format: 'avc' } }),
      };
      if ((await VideoEncoder.isConfigSupported(config)).supported) return { name, config };
    }
    throw new Failure('encoder', 'this Chromium encodes neither H.264 nor VP9 nor AV1');
  };

  // Returns the text that fits, truncated at grapheme boundaries.
  const shortened = (context, caption, room) => {
    const fits = (text) => context.measureText(text).width <= room;
    if (fits(caption)) return caption;
    const letters = Array.from(new Intl.Segmenter().segment(caption), ({ segment }) => segment);
    let [shown, cut] = [0, letters.length];
    while (cut - shown > 1) {
      const middle = (shown + cut) >> 1;
      if (fits(letters.slice(0, middle).join('') + CAPTION.ellipsis)) shown = middle;
      else cut = middle;
    }
    return letters.slice(0, shown).join('') + CAPTION.ellipsis;
  };

  class Video {
    constructor({ framesPerSecond, maxPictures, hasCaptions }) {
      Object.assign(this, { framesPerSecond, maxPictures });
      this.captionHeight = hasCaptions ? CAPTION.height : 0;
      // Written but unfetched bytes with their file positions.
      this.pieces = [];
      // Start time of the picture on the canvas; null before the first one.
      this.from = null;
      this.nextKeyFrame = 0;
      this.failed = new Promise((_, fail) => { this.fail = fail; });
      this.failed.catch(() => {});
    }

    // The first picture determines the size.
    async begin(picture) {
      const [width, height] = fitted(picture.width, picture.height, MAX_SIDE, MAX_SIDE, 1).map(even);
      Object.assign(this, { width, height });
      this.canvas = new OffscreenCanvas(width, height + this.captionHeight);
      this.context = this.canvas.getContext('2d', { alpha: false, willReadFrequently: true });
      const size = { width: this.canvas.width, height: this.canvas.height };
      const { name, config } = await supported(size, this.framesPerSecond);
      const onData = (bytes, position) => this.pieces.push({ bytes: bytes.slice(), position });
      this.muxer = new muxing.Muxer({
        target: new muxing.StreamTarget({ onData }),
        video: { codec: name, ...size },
        // The metadata precedes the media data (fast start).
        fastStart: { expectedVideoChunks: this.maxPictures },
      });
      this.encoder = new VideoEncoder({
        output: (chunk, meta) => {
          try {
            this.muxer.addVideoChunk(chunk, meta);
          } catch (error) {
            this.fail(new Failure('encoder', error.message));
          }
        },
        error: (error) => this.fail(new Failure('encoder', error.message)),
      });
      this.encoder.configure(config);
    }

    draw(picture, caption) {
      const { context, width, height } = this;
      context.fillStyle = '#000';
      context.fillRect(0, 0, this.canvas.width, this.canvas.height);
      if (even(picture.width) === width && even(picture.height) === height) {
        // At most one row and one column are cropped.
        context.drawImage(picture, 0, 0);
        if (this.captionHeight > 0) context.fillRect(0, height, width, this.captionHeight);
      } else {
        const size = fitted(picture.width, picture.height, width, height, Infinity);
        const [left, top] = [Math.floor((width - size[0]) / 2), Math.floor((height - size[1]) / 2)];
        context.imageSmoothingQuality = 'high';
        context.drawImage(picture, left, top, ...size);
      }
      if (this.captionHeight > 0 && caption) {
        context.font = CAPTION.font;
        context.fillStyle = CAPTION.color;
        context.textBaseline = 'middle';
        const words = shortened(context, caption, width - 2 * CAPTION.margin);
        context.fillText(words, CAPTION.margin, height + CAPTION.height / 2);
      }
    }

    async encode(from, duration) {
      const isKey = from >= this.nextKeyFrame;
      if (isKey) this.nextKeyFrame = from + KEY_FRAME_INTERVAL_MS;
      const frame = new VideoFrame(this.canvas, { timestamp: from * 1_000, duration: duration * 1_000 });
      this.encoder.encode(frame, { keyFrame: isKey });
      frame.close();
      while (this.encoder.encodeQueueSize > MAX_QUEUE) {
        const taken = new Promise((done) => this.encoder.addEventListener('dequeue', done, { once: true }));
        await Promise.race([taken, this.failed]);
      }
    }

    // Encodes the canvas until `end`, repeatedly if necessary.
    async encodeUntil(end) {
      while (this.from < end) {
        const duration = Math.min(end - this.from, MAX_PICTURE_MS);
        await this.encode(this.from, duration);
        this.from += duration;
      }
    }

    async show(base64, caption, at) {
      const picture = await decoded(base64);
      if (this.from === null) {
        await this.begin(picture);
        this.from = 0;
      } else {
        // Timestamps must be distinct.
        await this.encodeUntil(Math.max(at, this.from + 1));
      }
      this.draw(picture, caption);
      picture.close();
    }

    async finish(end) {
      if (this.from === null) throw new Failure('empty', 'the video has no pictures');
      const rest = Math.max(end - this.from, 2);
      const tail = rest % MAX_PICTURE_MS || MAX_PICTURE_MS;
      await this.encodeUntil(this.from + rest - tail);
      // The muxer gives the last picture the duration of the previous one.
      await this.encode(this.from, tail / 2);
      await this.encode(this.from + tail / 2, tail / 2);
      await Promise.race([this.encoder.flush(), this.failed]);
      this.encoder.close();
      this.muxer.finalize();
    }

    // Returns some of the written bytes; the caller repeats the call while there are more.
    take() {
      const taken = [];
      let left = MAX_ANSWER_BYTES;
      while (left > 0 && this.pieces.length > 0) {
        const piece = this.pieces[0];
        const bytes = piece.bytes.subarray(0, left);
        left -= bytes.length;
        taken.push([piece.position, bytes.toBase64()]);
        if (bytes.length === piece.bytes.length) this.pieces.shift();
        else Object.assign(piece, { bytes: piece.bytes.subarray(bytes.length), position: piece.position + bytes.length });
      }
      return { pieces: taken, is_more: this.pieces.length > 0 };
    }
  }

  let video;
  const answered = async (work) => {
    try {
      await work();
      return video.take();
    } catch (error) {
      return { failure: { kind: error.kind ?? 'encoder', message: String(error.message).slice(0, 300) } };
    }
  };
  return {
    begin: (options) => answered(() => { video = new Video(options); }),
    show: (base64, caption, at) => answered(() => video.show(base64, caption, at)),
    finish: (end) => answered(() => video.finish(end)),
    take: () => answered(() => {}),
  };
})
