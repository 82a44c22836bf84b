// The bundles screen is a separate file, loaded on demand.
import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { t } from '../i18n';
import { Failure } from '../ui/parts';
import 'shared:';

declare const BUNDLES_FILE: string;

let loaded: ComponentType | null = null;

export function EditorScreen() {
  const [Screen, setScreen] = useState<ComponentType | null>(() => loaded);
  const [isLost, setIsLost] = useState(false);
  useEffect(() => {
    if (Screen !== null) return;
    const address: string = new URL(BUNDLES_FILE, location.href).href;
    import(address).then(
      (module: { EditorScreen: ComponentType }) => {
        loaded = module.EditorScreen;
        setScreen(() => module.EditorScreen);
      },
      () => setIsLost(true),
    );
  }, []);
  if (Screen !== null) return <Screen />;
  return <div class="page">{isLost ? <Failure error={new Error(t('lost'))} onRetry={() => location.reload()} /> : <p class="quiet loading">{t('loading')}</p>}</div>;
}
